// SpeculationState: what the adaptive policy learns while it runs, and SpeculationMemory, which
// carries it from one request to the next. Thread-compatible: the cycle's thread.
#ifndef BASTION_ORCHESTRATOR_BUDGET_SPECULATION_STATE_H_
#define BASTION_ORCHESTRATOR_BUDGET_SPECULATION_STATE_H_

#include "orchestrator/budget/draft_gate.h"
#include "orchestrator/budget/pace.h"
#include "orchestrator/budget/survival.h"

namespace bastion {

struct SpeculationState {
  Survival survival;
  DraftGate gate;
  Pace pace;
};

// One per drafter and verifier, fed by all their sequences; new sequences start from it, so that a
// useless drafter is paid for once and not once a request. Greedy and sampled text are kept apart:
// a drafter is right less often on sampled text.
class SpeculationMemory {
 public:
  [[nodiscard]] SpeculationState& at(bool greedy) { return greedy ? greedy_ : sampled_; }

  [[nodiscard]] SpeculationState NewSequence(bool greedy) {
    SpeculationState state = at(greedy);
    state.gate = state.gate.ForNewSequence();
    return state;
  }

 private:
  SpeculationState greedy_;
  SpeculationState sampled_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_BUDGET_SPECULATION_STATE_H_
