#include "kernels/torch/portable_backend.h"

#include "kernels/torch/torch_backend.h"

namespace bastion::kernels {

absl::StatusOr<const Backend*> PortableBackend() { return &TorchBackend(); }

}  // namespace bastion::kernels
