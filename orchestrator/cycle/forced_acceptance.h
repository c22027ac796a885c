// ForcedAcceptance: how often the target chooses the tokens that a constraint forces. It need not
// choose them, because the same text has several spellings in tokens. Some models follow the usual
// spelling almost always, others seldom. Thread-compatible: used by the cycle's thread.
#ifndef BASTION_ORCHESTRATOR_CYCLE_FORCED_ACCEPTANCE_H_
#define BASTION_ORCHESTRATOR_CYCLE_FORCED_ACCEPTANCE_H_

#include "orchestrator/cost/fading_ratio.h"
#include "orchestrator/cycle/sequence.h"

namespace bastion {

class ForcedAcceptance {
 public:
  void Observe(const DecodeSequence::ForcedOutcome& outcome) {
    const int tokens = outcome.chosen + outcome.replaced;
    if (tokens > 0) chosen_.Add(outcome.chosen, tokens, kMemory);
  }
  // The share of forced tokens that the target chose, if it chose those before.
  [[nodiscard]] double rate() const { return chosen_.value(); }

 private:
  static constexpr double kMemory = 64;  // Outcomes.

  // Chosen tokens over forced ones. It begins as if the target nearly always chose them.
  FadingRatio chosen_ = {.top = 9.5, .bottom = 10};
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_CYCLE_FORCED_ACCEPTANCE_H_
