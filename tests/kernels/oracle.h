// The backend that tests of a device's kernels compare them with: kernels/torch in double precision
// in a build with libtorch (label torch), the CPU's kernels in every other. Tests of the CPU's
// kernels against it are in tests/kernels/torch, and built with libtorch only.
#ifndef BASTION_TESTS_KERNELS_ORACLE_H_
#define BASTION_TESTS_KERNELS_ORACLE_H_

#include "kernels/backend/backend.h"

namespace bastion::kernels {

[[nodiscard]] const Backend& Oracle();

// Whether the oracle's attention takes heads of this width: the CPU's takes multiples of 16.
[[nodiscard]] inline bool OracleTakes(int head_dim) {
  return &Oracle() != &CpuBackend() || head_dim % kWidest == 0;
}

}  // namespace bastion::kernels

#endif  // BASTION_TESTS_KERNELS_ORACLE_H_
