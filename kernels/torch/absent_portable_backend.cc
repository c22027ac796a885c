#include "absl/status/status.h"
#include "kernels/torch/portable_backend.h"

namespace bastion::kernels {

absl::StatusOr<const Backend*> PortableBackend() {
  return absl::InvalidArgumentError(
      "--backend torch needs libtorch, which this build lacks; build with deploy/local/build.sh "
      "torch");
}

}  // namespace bastion::kernels
