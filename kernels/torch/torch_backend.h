// Every kernel of kernels/ops.h written with ATen: packed weights and pages become tensors, and
// what tensor operations give is written back.
//
// The backend has two uses. In fp32 it is portable: it runs on every processor that libtorch runs
// on (--backend torch). In double precision it is the oracle: tests compare every other backend
// with it.
//
// There is no row invariance here, unlike in the other backends: ATen may sum in another order when
// a call has other rows. Speculation then writes a text of the same distribution, but near a tie it
// may choose another token than plain decoding. Results do repeat for the same calls on the same
// number of threads.
//
// ATen runs each operation on the thread that calls it. Kernels share their work over the engine's
// ThreadPool: an OpenMP team of ATen's would spin on the same cores, and starve it and the other
// services of the machine.
#ifndef BASTION_KERNELS_TORCH_TORCH_BACKEND_H_
#define BASTION_KERNELS_TORCH_TORCH_BACKEND_H_

#include "kernels/backend/backend.h"

namespace bastion::kernels {

// Sums in fp32.
[[nodiscard]] const Backend& TorchBackend();
// Sums in double precision.
[[nodiscard]] const Backend& TorchOracle();

}  // namespace bastion::kernels

#endif  // BASTION_KERNELS_TORCH_TORCH_BACKEND_H_
