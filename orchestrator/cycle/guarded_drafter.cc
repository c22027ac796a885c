#include "orchestrator/cycle/guarded_drafter.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace bastion {

absl::Status GuardedDrafter::Distrust(const absl::Status& why) {
  trusted_ = false;
  why_not_ = why;
  ask_again_at_ = clock_->Now() + pause_;
  pause_ = std::min(2 * pause_, kLongestPause);
  return why;
}

absl::StatusOr<DrafterInfo> GuardedDrafter::Info() {
  absl::StatusOr<DrafterInfo> info = inner_->Info();
  if (!info.ok()) return Distrust(info.status());
  if (info->vocabulary != vocabulary_ || info->positions < 1) {
    return Distrust(absl::FailedPreconditionError(
        absl::StrCat("drafter ", info->model, " has a vocabulary of ", info->vocabulary, " and ",
                     info->positions, " positions; the target's vocabulary is ", vocabulary_,
                     ": it belongs to another target")));
  }
  trusted_ = true;
  return info;
}

absl::StatusOr<std::vector<Draft>> GuardedDrafter::Expand(absl::Span<const Frontier> frontiers) {
  if (!trusted_) {
    if (clock_->Now() < ask_again_at_) return why_not_;
    RETURN_IF_ERROR(Info().status());
  }
  absl::StatusOr<std::vector<Draft>> drafts = inner_->Expand(frontiers);
  if (!drafts.ok()) return Distrust(drafts.status());
  pause_ = kFirstPause;
  return drafts;
}

}  // namespace bastion
