// Draft and tree for a whole batch: asks the drafter once for all sequences that want a draft, then
// grows every sequence's tree. No draft (the policy wants none, the gate is shut, the drafter is
// away or late) gives the root alone: a plain decode step. Thread-compatible: the cycle's thread.
#ifndef BASTION_ORCHESTRATOR_CYCLE_FOREST_GROWER_H_
#define BASTION_ORCHESTRATOR_CYCLE_FOREST_GROWER_H_

#include <vector>

#include "common/base/clock.h"
#include "common/stages/stages.h"
#include "orchestrator/cost/cost_model.h"
#include "orchestrator/cycle/sequence.h"

namespace bastion {

struct GrownForest {
  std::vector<GrownTree> trees;  // One a sequence, in order.
  StageTimes times;              // draft and tree.
  bool asked = false;            // The drafter, for at least one of them.
  absl::Status draft_status;     // Why there was no draft, if one was asked for.
};

class ForestGrower {
 public:
  // Nothing is owned.
  ForestGrower(const TargetInfo& target, Drafter* drafter, CostModel* costs, const Clock* clock)
      : target_(target), drafter_(drafter), costs_(costs), clock_(clock) {}

  [[nodiscard]] GrownForest Grow(absl::Span<DecodeSequence* const> sequences);

 private:
  TargetInfo target_;
  Drafter* const drafter_;
  CostModel* const costs_;
  const Clock* const clock_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_CYCLE_FOREST_GROWER_H_
