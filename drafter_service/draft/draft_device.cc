#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "drafter_service/draft/draft_model_loader.h"

namespace bastion::drafter {

absl::StatusOr<nn::DeviceKind> ChooseDraftDevice(nn::DeviceKind kind, const std::string& folder) {
  ASSIGN_OR_RETURN(const bool block, IsBlockDrafter(folder));
  if (block || kind == nn::DeviceKind::kCpu) return kind;
  if (kind == nn::DeviceKind::kCuda) {
    return absl::UnimplementedError(
        absl::StrCat("--device cuda: ", folder,
                     " is an autoregressive drafter, which runs on CPUs "
                     "only; use --device cpu, or auto for the other models on a GPU"));
  }
  LOG(INFO) << folder << " is an autoregressive drafter: it runs on the CPU";
  return nn::DeviceKind::kCpu;
}

}  // namespace bastion::drafter
