#include "orchestrator/cost/yielding_verifier.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/status.h"

namespace bastion {
namespace {

// A call that spent more than this fraction of its own time in the queue waited for another user.
constexpr double kWaited = 0.1;

}  // namespace

absl::StatusOr<VerifyResult> YieldingVerifier::Verify(const Forest& forest,
                                                      absl::Span<const PrefillItem> prompts) {
  const absl::Duration pause =
      shared_ ? std::max(next_call_ - clock_.Now(), absl::ZeroDuration()) : absl::ZeroDuration();
  if (pause > absl::ZeroDuration()) pause_(pause);
  StopWatch watch(clock_);
  ASSIGN_OR_RETURN(VerifyResult result, verifier_->Verify(forest, prompts));
  const absl::Duration own = watch.Lap() - result.trace.queue;
  if (!shared_ && result.trace.queue > kWaited * own) {
    shared_ = true;
    LOG(INFO) << "the verifier has other users; taking at most " << 100 * kShare
              << " percent of its time";
  }
  next_call_ = clock_.Now() + (1 / kShare - 1) * own;
  result.trace.queue += pause;
  return result;
}

}  // namespace bastion
