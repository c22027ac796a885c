// GuardedDrafter: forwards calls to an inner drafter only while that drafter works and matches the
// target.
//
// Before the first draft, and after every failure, Expand calls the inner drafter's Info() and
// rejects a drafter that does not match the target. After a failure, Expand does not call the inner
// drafter during a pause. The pause doubles with each further Expand of the inner drafter that
// fails, because that may cost the cycle a full timeout; Info() costs no time. So a drafter that
// hangs costs at most one timeout per pause, and one that returns is used again soon.
//
// A drafter that lacks the target's features waits for them, then answers without a draft. After
// kEmptyCalls such calls in a row this is a failure too, but the pause stays short: each call costs
// less than a timeout, and the drafter gets its features back by itself. Thread-compatible: only
// the cycle's thread uses it.
#ifndef BASTION_ORCHESTRATOR_CYCLE_GUARDED_DRAFTER_H_
#define BASTION_ORCHESTRATOR_CYCLE_GUARDED_DRAFTER_H_

#include <vector>

#include "common/base/clock.h"
#include "common/stages/stages.h"

namespace bastion {

class GuardedDrafter final : public Drafter {
 public:
  static constexpr absl::Duration kFirstPause = absl::Milliseconds(250);
  static constexpr absl::Duration kLongestPause = absl::Seconds(30);
  static constexpr int kEmptyCalls = 3;
  static constexpr absl::Duration kLongestEmptyPause = absl::Seconds(2);

  // `inner` and `clock` must outlive this object. `vocabulary` is the size of the target's
  // vocabulary.
  GuardedDrafter(Drafter* inner, int vocabulary, const Clock* clock = &Clock::Real())
      : inner_(inner), vocabulary_(vocabulary), clock_(clock) {}

  // FAILED_PRECONDITION if the drafter's vocabulary size differs from the target's or the drafter
  // predicts no position. Calls the inner drafter even during a pause. REQUIRES: the inner
  // drafter's Info() does not block.
  absl::StatusOr<DrafterInfo> Info() override;
  // During a pause, returns the last error.
  absl::StatusOr<DraftResult> Expand(absl::Span<const Frontier> frontiers) override;
  void Close(SequenceId sequence) override { inner_->Close(sequence); }

 private:
  // Starts a pause and returns `error`.
  absl::Status PauseAfter(const absl::Status& error, absl::Duration pause);
  // The same for a call of the inner drafter that failed. `longest` limits the pause.
  absl::Status PauseAfterCall(const absl::Status& error, absl::Duration longest);

  Drafter* const inner_;
  const int vocabulary_;
  const Clock* const clock_;
  bool usable_ = false;                 // Expand has called Info(), and no call has failed since.
  absl::Status last_error_;             // The reason for the current pause.
  absl::Duration pause_ = kFirstPause;  // After the next failure.
  int empty_calls_ = 0;                 // The last calls lacked features.
  absl::Duration retry_at_ = -absl::InfiniteDuration();
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_CYCLE_GUARDED_DRAFTER_H_
