// GuardedDrafter: a drafter that is known to fit the target, or not asked at all.
//
// Before the first draft, and after every failure, the inner drafter states its facts; one with
// another vocabulary is refused. After a failure it is left alone for a while, twice as long each
// time, so that a drafter that hangs does not cost every cycle its patience.
// Thread-compatible: the cycle's thread.
#ifndef BASTION_ORCHESTRATOR_CYCLE_GUARDED_DRAFTER_H_
#define BASTION_ORCHESTRATOR_CYCLE_GUARDED_DRAFTER_H_

#include <vector>

#include "common/base/clock.h"
#include "common/stages/stages.h"

namespace bastion {

class GuardedDrafter final : public Drafter {
 public:
  static constexpr absl::Duration kFirstPause = absl::Milliseconds(250);
  static constexpr absl::Duration kLongestPause = absl::Seconds(4);

  // `inner` and `clock` must outlive it. `vocabulary`: the target's.
  GuardedDrafter(Drafter* inner, int vocabulary, const Clock* clock = &Clock::Real())
      : inner_(inner), vocabulary_(vocabulary), clock_(clock) {}

  // FAILED_PRECONDITION for a drafter of another vocabulary.
  absl::StatusOr<DrafterInfo> Info() override;
  absl::StatusOr<std::vector<Draft>> Expand(absl::Span<const Frontier> frontiers) override;
  void Close(SequenceId sequence) override { inner_->Close(sequence); }

 private:
  absl::Status Distrust(const absl::Status& why);

  Drafter* const inner_;
  const int vocabulary_;
  const Clock* const clock_;
  bool trusted_ = false;
  absl::Status why_not_;
  absl::Duration pause_ = kFirstPause;
  absl::Duration ask_again_at_ = -absl::InfiniteDuration();
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_CYCLE_GUARDED_DRAFTER_H_
