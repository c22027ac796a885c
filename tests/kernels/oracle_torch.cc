#include "kernels/torch/torch_backend.h"
#include "tests/kernels/oracle.h"

namespace bastion::kernels {

const Backend& Oracle() { return TorchOracle(); }

}  // namespace bastion::kernels
