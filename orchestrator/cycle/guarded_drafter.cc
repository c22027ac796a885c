#include "orchestrator/cycle/guarded_drafter.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace bastion {
namespace {

// The error of a call in which no draft was made for lack of features; OK for any other call.
absl::Status LackOfFeatures(const DraftResult& result) {
  absl::Status lack;
  for (const Draft& draft : result.drafts) {
    const absl::Status& status = draft.status;
    if (!absl::IsDeadlineExceeded(status) && !absl::IsUnavailable(status)) return absl::OkStatus();
    lack = status;
  }
  return lack;
}

}  // namespace

absl::Status GuardedDrafter::PauseAfter(const absl::Status& error, absl::Duration pause) {
  usable_ = false;
  last_error_ = error;
  retry_at_ = clock_->Now() + pause;
  return error;
}

absl::Status GuardedDrafter::PauseAfterCall(const absl::Status& error, absl::Duration longest) {
  return PauseAfter(error, std::min(std::exchange(pause_, std::min(2 * pause_, longest)), longest));
}

absl::StatusOr<DrafterInfo> GuardedDrafter::Info() {
  absl::StatusOr<DrafterInfo> info = inner_->Info();
  if (!info.ok() || (info->vocabulary == vocabulary_ && info->positions >= 1)) return info;
  return absl::FailedPreconditionError(absl::StrCat(
      "drafter ", info->model, " predicts ", info->positions, " positions from a vocabulary of ",
      info->vocabulary, ", but the target needs at least 1 position and a vocabulary of ",
      vocabulary_, "; start the drafter that was trained for this target"));
}

absl::StatusOr<DraftResult> GuardedDrafter::Expand(absl::Span<const Frontier> frontiers) {
  if (!usable_) {
    if (clock_->Now() < retry_at_) return last_error_;
    if (const absl::Status info = Info().status(); !info.ok()) return PauseAfter(info, kFirstPause);
    usable_ = true;
  }
  absl::StatusOr<DraftResult> result = inner_->Expand(frontiers);
  if (!result.ok()) return PauseAfterCall(result.status(), kLongestPause);
  const absl::Status lack = LackOfFeatures(*result);
  if (!lack.ok()) {
    // Until a call has a draft, each further one without costs a pause.
    if (++empty_calls_ >= kEmptyCalls) (void)PauseAfterCall(lack, kLongestEmptyPause);
    return result;
  }
  empty_calls_ = 0;
  pause_ = kFirstPause;
  return result;
}

}  // namespace bastion
