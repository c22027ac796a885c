#include "engine/program/open_gpu.h"

namespace bastion::nn {

absl::StatusOr<std::shared_ptr<Device>> OpenGpu(const DeviceChoice&, const HostKernels&) {
  return absl::UnimplementedError(
      "--device cuda: this build has no CUDA; build with deploy/local/build.sh cuda");
}

}  // namespace bastion::nn
