// The oracle: the backend that tests of GPU kernels compare results with. In a build with libtorch
// (CTest label torch) the oracle is kernels/torch in double precision. In other builds it is the
// project's CPU kernels, which tests/kernels/torch compares with kernels/torch in builds with
// libtorch.
#ifndef BASTION_TESTS_KERNELS_ORACLE_H_
#define BASTION_TESTS_KERNELS_ORACLE_H_

#include "kernels/cpu/cpu_backend.h"
#include "kernels/ops/backend.h"

namespace bastion::kernels {

[[nodiscard]] const Backend& Oracle();

// Whether the oracle's attention supports this head_dim. The attention of the CPU kernels supports
// multiples of 16.
[[nodiscard]] inline bool OracleSupports(int head_dim) {
  return &Oracle() != &CpuBackend() || head_dim % kWidest == 0;
}

}  // namespace bastion::kernels

#endif  // BASTION_TESTS_KERNELS_ORACLE_H_
