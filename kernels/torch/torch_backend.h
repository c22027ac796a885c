// Every kernel of kernels/ops/ops.h, written with ATen. The kernels view packed weights and pages
// as tensors, compute with tensor operations, and write the results back.
//
// The backend has two uses. In fp32 it is portable: it runs on every processor that libtorch
// supports (--backend torch). In double precision it is the oracle: tests compare every other
// backend with it.
//
// Unlike the other CPU backend, this one is not row invariant: ATen may sum in a different order if
// a call has a different number of rows. Speculation then still preserves the distribution of the
// text, but near a tie it may choose a different token than plain decoding. The same calls with the
// same number of threads give the same results.
//
// ATen runs each operation on the calling thread only. The kernels divide their work among the
// threads of the engine's ThreadPool instead. If ATen used its own OpenMP threads, they would spin
// on the same cores and starve the ThreadPool and the other services on the machine.
#ifndef BASTION_KERNELS_TORCH_TORCH_BACKEND_H_
#define BASTION_KERNELS_TORCH_TORCH_BACKEND_H_

#include "kernels/ops/backend.h"

namespace bastion::kernels {

// Sums in fp32.
[[nodiscard]] const Backend& TorchBackend();
// Sums in double precision.
[[nodiscard]] const Backend& TorchOracle();

}  // namespace bastion::kernels

#endif  // BASTION_KERNELS_TORCH_TORCH_BACKEND_H_
