#include "orchestrator/profile/yielding_verifier.h"

#include "common/base/check.h"
#include "common/base/status.h"

namespace bastion {
namespace {

// A call that spent more than this fraction of its own time in the queue waited for another client.
constexpr double kWaited = 0.1;

}  // namespace

absl::StatusOr<VerifyResult> YieldingVerifier::Verify(const Forest& forest,
                                                      absl::Span<const PrefillItem> prompts) {
  StopWatch watch(clock_);
  const absl::Duration pause = next_call_ - clock_.Now();
  if (shared_ && pause > absl::ZeroDuration()) pause_(pause);
  const absl::Duration paused = watch.Lap();  // A thread may sleep longer than `pause`.
  ASSIGN_OR_RETURN(VerifyResult result, verifier_->Verify(forest, prompts));
  const absl::Duration own = watch.Lap() - result.trace.queue;
  if (!shared_ && result.trace.queue > kWaited * own) {
    shared_ = true;
    LOG(INFO) << "the verifier has other users; taking at most " << 100 * kShare
              << " percent of its time";
  }
  next_call_ = clock_.Now() + (1 / kShare - 1) * own;
  result.trace.queue += paused;
  return result;
}

}  // namespace bastion
