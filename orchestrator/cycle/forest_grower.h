// ForestGrower: the draft and tree stages of a batch. It sends the drafter one request for all
// sequences that want a draft, then grows the tree of every sequence. A failed or late draft is not
// an error: the sequence's grower then grows a tree without a draft, possibly the root alone.
// Thread-compatible: used by the cycle's thread.
#ifndef BASTION_ORCHESTRATOR_CYCLE_FOREST_GROWER_H_
#define BASTION_ORCHESTRATOR_CYCLE_FOREST_GROWER_H_

#include <vector>

#include "common/base/clock.h"
#include "common/stages/stages.h"
#include "orchestrator/cost/cost_model.h"
#include "orchestrator/cycle/sequence.h"

namespace bastion {

struct GrownForest {
  std::vector<GrownTree> trees;  // One per sequence, in the same order.
  StageTimes times;              // Only `draft` and `tree` are set.
  bool draft_requested = false;  // For at least one sequence.
  absl::Status draft_status;     // The error of the draft request, or of an invalid draft.
};

class ForestGrower {
 public:
  // Owns nothing; all pointers must outlive this object.
  ForestGrower(const TargetInfo& target, Drafter* drafter, CostModel* costs, const Clock* clock)
      : target_(target), drafter_(drafter), costs_(costs), clock_(clock) {}

  // Grows one tree per sequence.
  [[nodiscard]] GrownForest Grow(absl::Span<DecodeSequence* const> sequences);

 private:
  TargetInfo target_;
  Drafter* const drafter_;
  CostModel* const costs_;
  const Clock* const clock_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_CYCLE_FOREST_GROWER_H_
