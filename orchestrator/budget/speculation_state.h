// SpeculationState: what the adaptive policy learns while it runs, and SpeculationMemory, which
// carries it from one request to the next. Thread-compatible: the cycle's thread.
#ifndef BASTION_ORCHESTRATOR_BUDGET_SPECULATION_STATE_H_
#define BASTION_ORCHESTRATOR_BUDGET_SPECULATION_STATE_H_

#include <array>

#include "orchestrator/budget/draft_gate.h"
#include "orchestrator/budget/pace.h"
#include "orchestrator/budget/sharpness.h"
#include "orchestrator/budget/survival.h"

namespace bastion {

// How the drafter guesses: it is right less often on sampled text, more often again when it knows
// the noise.
enum class Guessing { kGreedy, kSampled, kCoupled };

struct SpeculationState {
  Survival survival;
  Sharpness sharpness;
  DraftGate gate;
  Pace pace;
};

// One per drafter and verifier, fed by all their sequences; new sequences start from it, so that a
// useless drafter is paid for once and not once a request. One for each way of guessing.
class SpeculationMemory {
 public:
  [[nodiscard]] SpeculationState& at(Guessing guessing) {
    return states_[static_cast<size_t>(guessing)];
  }

  [[nodiscard]] SpeculationState NewSequence(Guessing guessing) {
    SpeculationState state = at(guessing);
    state.gate = state.gate.ForNewSequence();
    return state;
  }

 private:
  std::array<SpeculationState, 3> states_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_BUDGET_SPECULATION_STATE_H_
