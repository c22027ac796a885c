// SpeculationState holds what the adaptive policy learns. SpeculationMemory carries it from one
// request to the next. Thread-compatible: used by the cycle's thread.
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

// The drafter's accuracy depends on the mode: it is lower on sampled text than on greedy text;
// coupled drafts recover part of the loss.
enum class DraftMode { kGreedy, kSampled, kCoupled };

struct SpeculationState {
  Survival survival;
  Survival draft_free_survival;  // For trees that the prior grew alone.
  DraftGate gate;
  Pace pace;
};

// State shared by all requests with the same DraftMode and kind of prior.
struct SharedSpeculation {
  SpeculationState state;  // New sequences start from it.
  CandidateWeights draft_weights = CandidateWeights::ForDrafts();
  CandidateWeights prior_weights = CandidateWeights::ForPriorAlone();
  DraftChoice draft_choice;
  int64_t weight_updates = 0;  // Number of cycles that updated the weights.
};

// The parts of the transition prior that do not belong to one request. Nothing is owned.
struct PriorInputs {
  int vocabulary = 0;                      // 0: no prior; +prior has no effect.
  const TransitionGains* table = nullptr;  // Must have this vocabulary. Null: no table.
  ContinuationCounts* learned = nullptr;   // Counts of all requests. Null: not collected.
};

// All sequences that use the same drafter and verifier share one object. So the cost of finding out
// that a drafter is useless is paid once, not once per request.
class SpeculationMemory {
 public:
  explicit SpeculationMemory(const PriorInputs& inputs = {}) : inputs_(inputs) {}

  [[nodiscard]] const PriorInputs& inputs() const { return inputs_; }

  // Creates the state at the first use. The reference stays valid.
  [[nodiscard]] SharedSpeculation& at(DraftMode mode, Policy::Prior prior) {
    return shared_[{mode, prior}];
  }

  [[nodiscard]] SpeculationState NewSequence(DraftMode mode, Policy::Prior prior) {
    SpeculationState state = at(mode, prior).state;
    state.gate = state.gate.ForNewSequence();
    return state;
  }

 private:
  const PriorInputs inputs_;
  std::map<std::pair<DraftMode, Policy::Prior>, SharedSpeculation> shared_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_POLICY_SPECULATION_STATE_H_
