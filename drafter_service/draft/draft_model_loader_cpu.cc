#include "drafter_service/draft/dflash.h"
#include "drafter_service/draft/draft_model_loader.h"

namespace bastion::drafter {

absl::StatusOr<ChosenDraftModelLoader> ChooseDraftModelLoader(nn::DeviceKind kind, int /*gpu*/) {
  if (kind == nn::DeviceKind::kCuda) {
    return absl::UnimplementedError(
        "--device cuda: this build has no CUDA; build with deploy/local/build.sh cuda");
  }
  return ChosenDraftModelLoader{LoadCpuDflash, /*on_gpu=*/false};
}

}  // namespace bastion::drafter
