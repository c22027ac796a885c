// ForcedAcceptance: how often the target chooses the tokens that a constraint forces. It need not
// choose them, because the same text has several spellings in tokens. Some models follow the usual
// spelling almost always, others seldom. Thread-compatible: used by the cycle's thread.
#ifndef BASTION_ORCHESTRATOR_CYCLE_FORCED_ACCEPTANCE_H_
#define BASTION_ORCHESTRATOR_CYCLE_FORCED_ACCEPTANCE_H_

#include "orchestrator/cycle/sequence.h"

namespace bastion {

class ForcedAcceptance {
 public:
  void Observe(const DecodeSequence::ForcedOutcome& outcome) {
    const int tokens = outcome.chosen + outcome.replaced;
    if (tokens == 0) return;
    chosen_ = kKept * chosen_ + outcome.chosen;
    tokens_ = kKept * tokens_ + tokens;
  }
  // The share of forced tokens that the target chose, if it chose those before.
  [[nodiscard]] double rate() const { return chosen_ / tokens_; }

 private:
  static constexpr double kKept = 1 - 1.0 / 64;  // The share of an outcome that the next one keeps.

  // Fading sums. They begin as if forced tokens were nearly always chosen.
  double chosen_ = 9.5, tokens_ = 10;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_CYCLE_FORCED_ACCEPTANCE_H_
