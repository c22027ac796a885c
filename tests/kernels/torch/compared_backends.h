// The backends that tests compare with the oracle (kernels/torch/torch_backend.h).
#ifndef BASTION_TESTS_KERNELS_TORCH_COMPARED_BACKENDS_H_
#define BASTION_TESTS_KERNELS_TORCH_COMPARED_BACKENDS_H_

#include "kernels/cpu/cpu_backend.h"
#include "kernels/torch/torch_backend.h"
#include "tests/kernels/kernel_test_support.h"

namespace bastion::kernels {

// Calls body(backend, name) for the CPU kernels with each instruction set that this CPU supports,
// then for the portable kernels.
template <typename Body>
void ForEachComparedBackend(Body body) {
  ForEachInstructionSet([&](const char* name) { body(CpuBackend(), name); });
  body(TorchBackend(), "torch");
}

}  // namespace bastion::kernels

#endif  // BASTION_TESTS_KERNELS_TORCH_COMPARED_BACKENDS_H_
