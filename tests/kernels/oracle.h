// The oracle: the backend that tests of GPU kernels compare results with. In a build with libtorch
// (label torch) it is kernels/torch in double precision, in other builds the CPU's kernels. The
// tests in tests/kernels/torch compare the CPU's kernels with it; only builds with libtorch have
// them.
#ifndef BASTION_TESTS_KERNELS_ORACLE_H_
#define BASTION_TESTS_KERNELS_ORACLE_H_

#include "kernels/backend/backend.h"

namespace bastion::kernels {

[[nodiscard]] const Backend& Oracle();

// Whether the oracle's attention supports this head width. The CPU's supports multiples of 16.
[[nodiscard]] inline bool OracleTakes(int head_dim) {
  return &Oracle() != &CpuBackend() || head_dim % kWidest == 0;
}

}  // namespace bastion::kernels

#endif  // BASTION_TESTS_KERNELS_ORACLE_H_
