#include "orchestrator/cycle/guarded_drafter.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace bastion {

absl::Status GuardedDrafter::PauseAfter(const absl::Status& error) {
  usable_ = false;
  last_error_ = error;
  retry_at_ = clock_->Now() + pause_;
  pause_ = std::min(2 * pause_, kLongestPause);
  return error;
}

absl::StatusOr<DrafterInfo> GuardedDrafter::Info() {
  absl::StatusOr<DrafterInfo> info = inner_->Info();
  if (!info.ok()) return PauseAfter(info.status());
  if (info->vocabulary != vocabulary_ || info->positions < 1) {
    return PauseAfter(absl::FailedPreconditionError(absl::StrCat(
        "drafter ", info->model, " predicts ", info->positions, " positions from a vocabulary of ",
        info->vocabulary, ", but the target needs at least 1 position and a vocabulary of ",
        vocabulary_, "; start the drafter that was trained for this target")));
  }
  usable_ = true;
  return info;
}

absl::StatusOr<DraftResult> GuardedDrafter::Expand(absl::Span<const Frontier> frontiers) {
  if (!usable_) {
    if (clock_->Now() < retry_at_) return last_error_;
    RETURN_IF_ERROR(Info().status());
  }
  absl::StatusOr<DraftResult> result = inner_->Expand(frontiers);
  if (!result.ok()) return PauseAfter(result.status());
  pause_ = kFirstPause;
  return result;
}

}  // namespace bastion
