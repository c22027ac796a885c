// The kernels for CPUs, which every build has. Thread-safe: no state.
#ifndef BASTION_KERNELS_CPU_CPU_BACKEND_H_
#define BASTION_KERNELS_CPU_CPU_BACKEND_H_

#include "kernels/ops/backend.h"

namespace bastion::kernels {

// The kernels of kernels/cpu. They use the best instruction set of this CPU, detected at run time.
[[nodiscard]] const Backend& CpuBackend();

// Whether this CPU has the int8 instructions that linear() of CpuBackend uses. Without them, int8
// weights still give correct results, but slowly.
[[nodiscard]] bool HasInt8Instructions();

}  // namespace bastion::kernels

#endif  // BASTION_KERNELS_CPU_CPU_BACKEND_H_
