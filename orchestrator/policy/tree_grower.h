// TreeGrower: one sequence's trees, cycle by cycle, under its policy. The calls of one cycle:
//
//   GrownTree grown = grower.WantsDraft(root, limits)
//           ? grower.Grow(root, <the drafter's marginals, empty if it failed>, limits)
//           : grower.Skip(root, limits);
//   <verify; the cost model observes the call>
//   grower.Observe(grown, acceptance, <time the draft took>);
//
// With a transition prior there may be a draft-free tree: grown by WantsDraft, which may find it
// good enough, and taken whenever there is no draft.
//
// Grow and Skip learn nothing, Observe does (evidence under every policy, the rest under the
// adaptive one). A tree never has more nodes or depth than the limits. Thread-compatible: the
// cycle's thread.
#ifndef BASTION_ORCHESTRATOR_POLICY_TREE_GROWER_H_
#define BASTION_ORCHESTRATOR_POLICY_TREE_GROWER_H_

#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/stages/marginals.h"
#include "common/stages/stage_data.h"
#include "orchestrator/cost/cost_model.h"
#include "orchestrator/policy/grown_tree.h"
#include "orchestrator/policy/lookahead.h"
#include "orchestrator/policy/policy.h"
#include "orchestrator/policy/speculation_state.h"
#include "orchestrator/policy/tree_limits.h"
#include "orchestrator/prior/transition_prior.h"

namespace bastion {

class TreeGrower {
 public:
  // `costs` and `memory` are shared, not owned, and must outlive this.
  TreeGrower(Policy policy, bool greedy, const CostModel* costs, SpeculationMemory* memory);

  // The request's prompt, its last token being the first root. Before the first cycle; what the
  // cycles settle, Observe reads off them. Without it a prior knows the answer alone.
  void Read(absl::Span<const TokenId> prompt);

  // False when this cycle should not spend time on a draft.
  [[nodiscard]] bool WantsDraft(TokenId root, const TreeLimits& limits);

  // How many candidates per position the draft of this cycle should have.
  [[nodiscard]] int CandidatesFor(const TreeLimits& limits) const;

  // The draft-free tree, or the root alone, for a cycle that did not draft.
  [[nodiscard]] GrownTree Skip(TokenId root, const TreeLimits& limits);

  // The policy's tree over what the drafter said. REQUIRES: `marginals` are valid.
  [[nodiscard]] GrownTree Grow(TokenId root, const Marginals& marginals, const TreeLimits& limits);

  // What became of the tree. `draft_time` is what this cycle waited for its draft.
  void Observe(const GrownTree& grown, const Acceptance& acceptance, absl::Duration draft_time);

  [[nodiscard]] const Policy& policy() const { return policy_; }
  [[nodiscard]] const SpeculationState& state() const { return state_; }

 private:
  // True when the drafter's candidates are scored with fitted weights.
  [[nodiscard]] bool Weighs() const {
    return prior_.has_value() || guessing_ == Guessing::kCoupled;
  }
  // The policy's tree from the candidates in `rows`; `spine` is their top-1 path, `horizon` how
  // far they reach when no limit cuts them.
  [[nodiscard]] BudgetedTree GrowOver(const DraftTree& spine, const Candidates& rows,
                                      const TreeLimits& limits, int horizon) const;
  [[nodiscard]] BudgetedTree GrowNamedSize(TokenId root, const Candidates& rows,
                                           const TreeLimits& limits, int horizon) const;
  [[nodiscard]] DraftFreeTree GrowDraftFree(TokenId root, const TreeLimits& limits) const;
  [[nodiscard]] GrownTree Finish(BudgetedTree budgeted, DraftTree spine,
                                 const TreeLimits& limits) const;
  // The same for the draft-free tree of this cycle, which there must be.
  [[nodiscard]] GrownTree FinishDraftFree(const TreeLimits& limits);

  // Children of a node that are worth listing.
  [[nodiscard]] int MaxChildren(const TreeLimits& limits) const;
  // Weights that have settled learn from one cycle in four: a lesson costs as much as the tree.
  [[nodiscard]] bool NextLessonCounts();
  void LearnChoice(const GrownTree& grown, const CycleYield& yield);

  [[nodiscard]] CycleCost CostAt(int context) const;
  // What trees of this cycle are worth; made once a cycle.
  [[nodiscard]] const LookAhead& Look(const TreeLimits& limits) const;
  [[nodiscard]] CycleYield YieldOf(const DraftFreeTree& tree, const CycleCost& cost) const;

  const Policy policy_;
  const Guessing guessing_;
  const CostModel* const costs_;
  SharedSpeculation* const shared_;
  std::optional<TransitionPrior> prior_;
  SpeculationState state_;
  bool first_draft_ = true;
  DraftFreeLookout lookout_;
  int lessons_ = 0;                          // That there were, taken or not.
  std::optional<DraftFreeTree> draft_free_;  // Of this cycle.
  mutable std::optional<LookAhead> look_;    // Of this cycle.
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_POLICY_TREE_GROWER_H_
