#include "kernels/cpu/cpu_backend.h"
#include "tests/kernels/oracle.h"

namespace bastion::kernels {

const Backend& Oracle() { return CpuBackend(); }

}  // namespace bastion::kernels
