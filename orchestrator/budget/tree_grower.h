// TreeGrower: one sequence's trees, cycle by cycle, under its policy. The calls of one cycle:
//
//   GrownTree grown = grower.WantsDraft(limits)
//                         ? grower.Grow(root, <the drafter's marginals, empty if it failed>,
//                         limits) : grower.Skip(root, limits);
//   <verify; the cost model observes the call>
//   grower.Observe(grown, acceptance, <time the draft took>);
//
// Grow, Skip and WantsDraft change nothing, Observe learns (the adaptive policy only). A tree never
// has more nodes or depth than the limits. Thread-compatible: the cycle's thread.
#ifndef BASTION_ORCHESTRATOR_BUDGET_TREE_GROWER_H_
#define BASTION_ORCHESTRATOR_BUDGET_TREE_GROWER_H_

#include "absl/time/time.h"
#include "common/base/ids.h"
#include "common/tree/marginals.h"
#include "common/tree/stage_data.h"
#include "orchestrator/budget/cost_model.h"
#include "orchestrator/budget/grown_tree.h"
#include "orchestrator/budget/lookahead.h"
#include "orchestrator/budget/policy.h"
#include "orchestrator/budget/speculation_state.h"
#include "orchestrator/budget/tree_limits.h"

namespace bastion {

class TreeGrower {
 public:
  // `costs` and `memory` are shared, not owned, and must outlive this.
  TreeGrower(Policy policy, bool greedy, const CostModel* costs, SpeculationMemory* memory);

  // False when this cycle should not spend time on a draft.
  [[nodiscard]] bool WantsDraft(const TreeLimits& limits) const;

  // How many candidates per position the draft of this cycle should have.
  [[nodiscard]] int CandidatesFor(const TreeLimits& limits) const;

  // The root alone, for a cycle that did not draft.
  [[nodiscard]] GrownTree Skip(TokenId root, const TreeLimits& limits) const;

  // The policy's tree over what the drafter said. REQUIRES: `marginals` are valid.
  [[nodiscard]] GrownTree Grow(TokenId root, const Marginals& marginals,
                               const TreeLimits& limits) const;

  // What became of the tree. `draft_time` is what this cycle waited for its draft.
  void Observe(const GrownTree& grown, const Acceptance& acceptance, absl::Duration draft_time);

  [[nodiscard]] const Policy& policy() const { return policy_; }
  [[nodiscard]] const SpeculationState& state() const { return state_; }

 private:
  // The tree over the marginals as they are to be taken.
  [[nodiscard]] GrownTree GrowOver(TokenId root, const Marginals& marginals,
                                   const TreeLimits& limits) const;
  [[nodiscard]] CycleCost CostAt(int context) const;
  [[nodiscard]] LookAheadTerms TermsAt(int context) const;
  [[nodiscard]] GrownTree Finish(BudgetedTree budgeted, bool drafted, DraftTree spine,
                                 const TreeLimits& limits) const;
  [[nodiscard]] BudgetedTree GrowNamedSize(TokenId root, const Marginals& marginals,
                                           const TreeLimits& limits) const;

  const Policy policy_;
  const Guessing guessing_;
  const CostModel* const costs_;
  SpeculationMemory* const memory_;
  SpeculationState state_;
  bool first_draft_ = true;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_BUDGET_TREE_GROWER_H_
