// SpeculationState: what the adaptive policy learns while it runs, and SpeculationMemory, which
// carries it from one request to the next. Thread-compatible: the cycle's thread.
#ifndef BASTION_ORCHESTRATOR_POLICY_SPECULATION_STATE_H_
#define BASTION_ORCHESTRATOR_POLICY_SPECULATION_STATE_H_

#include <cstdint>
#include <map>
#include <utility>

#include "orchestrator/policy/draft_choice.h"
#include "orchestrator/policy/draft_gate.h"
#include "orchestrator/policy/pace.h"
#include "orchestrator/policy/policy.h"
#include "orchestrator/policy/survival.h"
#include "orchestrator/prior/candidate_weights.h"

namespace bastion {

// How the drafter guesses: it is right less often on sampled text, more often again when it knows
// the noise.
enum class Guessing { kGreedy, kSampled, kCoupled };

struct SpeculationState {
  Survival survival;
  Survival draft_free_survival;  // Of trees that the prior grew alone.
  DraftGate gate;
  Pace pace;
};

// What requests that guess in the same way share.
struct SharedSpeculation {
  SpeculationState state;  // New sequences start from it.
  CandidateWeights draft_weights = CandidateWeights::ForDrafts();
  CandidateWeights prior_weights = CandidateWeights::ForPriorAlone();
  DraftChoice draft_choice;
  int64_t lessons = 0;  // That the weights have had.
};

// Where the transition prior of a request comes from, apart from the request itself. Nothing is
// owned.
struct PriorInputs {
  int vocabulary = 0;                      // 0: there is no prior, +prior counts for nothing.
  const TransitionGains* table = nullptr;  // Of this vocabulary, or none.
  ContinuationCounts* learned = nullptr;   // From all requests; none: nothing is learned.
};

// One per drafter and verifier, fed by all their sequences, so that a useless drafter is paid for
// once and not once a request.
class SpeculationMemory {
 public:
  explicit SpeculationMemory(const PriorInputs& sources = {}) : sources_(sources) {}

  [[nodiscard]] const PriorInputs& sources() const { return sources_; }

  // Stays where it is.
  [[nodiscard]] SharedSpeculation& at(Guessing guessing, Policy::Prior prior) {
    return shared_[{guessing, prior}];
  }

  [[nodiscard]] SpeculationState NewSequence(Guessing guessing, Policy::Prior prior) {
    SpeculationState state = at(guessing, prior).state;
    state.gate = state.gate.ForNewSequence();
    return state;
  }

 private:
  const PriorInputs sources_;
  std::map<std::pair<Guessing, Policy::Prior>, SharedSpeculation> shared_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_POLICY_SPECULATION_STATE_H_
