#include "verifier_service/model/cpu_target.h"
#include "verifier_service/model/target_loader.h"

namespace bastion::verifier {

absl::StatusOr<ChosenTargetLoader> ChooseTargetLoader(nn::DeviceKind kind, int /*gpu*/) {
  if (kind == nn::DeviceKind::kCuda) {
    return absl::UnimplementedError(
        "--device cuda: this build has no CUDA; build with deploy/local/build.sh cuda");
  }
  return ChosenTargetLoader{LoadCpuTarget, /*on_gpu=*/false};
}

}  // namespace bastion::verifier
