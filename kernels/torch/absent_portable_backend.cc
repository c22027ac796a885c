#include "absl/status/status.h"
#include "kernels/torch/portable_backend.h"

namespace bastion::kernels {

absl::StatusOr<const Backend*> PortableBackend() {
  return absl::InvalidArgumentError(
      "--backend torch: this build has no libtorch; build with deploy/local/build.sh torch");
}

}  // namespace bastion::kernels
