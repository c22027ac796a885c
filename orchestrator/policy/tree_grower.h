// TreeGrower: grows the trees of one sequence under its policy. The calls of one cycle:
//
//   GrownTree grown = grower.DecideDraft(root, limits)
//           ? grower.Grow(root, <the drafter's marginals, empty if it failed>, limits)
//           : grower.GrowWithoutDraft(root, limits);
//   <verify; the cost model observes the call>
//   grower.Observe(grown, acceptance, <time the draft took>);
//
// With a transition prior there may be a draft-free tree, which the prior grows alone. DecideDraft
// grows it if it may be used, and may decide that it is better than a draft. It is used whenever
// there is no draft.
//
// Grow and GrowWithoutDraft learn nothing. Observe updates the counts of the prior and the
// candidate weights (candidate_weights.h) under every policy that uses them, and everything else
// only under the adaptive policy. A tree never exceeds the limits on nodes and depth.
// Thread-compatible: used by the cycle's thread.
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
  // `costs` and `memory` are shared and not owned; both must outlive this object. `greedy`: the
  // request has temperature 0.
  TreeGrower(Policy policy, bool greedy, const CostModel* costs, SpeculationMemory* memory);

  // Feeds the prompt to the prior, before the first cycle. The last token of the prompt is the
  // first root. Observe feeds the output tokens. Without this call, the prior knows only the
  // output.
  void ObservePrompt(absl::Span<const TokenId> prompt);

  // Begins a cycle. Returns true if it should request a draft: then call Grow next, else
  // GrowWithoutDraft. May grow the draft-free tree.
  [[nodiscard]] bool DecideDraft(TokenId root, const TreeLimits& limits);

  // The number of candidates per position to request from the drafter.
  [[nodiscard]] int CandidatesFor(const TreeLimits& limits) const;

  // For a cycle that requested no draft: the draft-free tree if there is one, else the root alone.
  [[nodiscard]] GrownTree GrowWithoutDraft(TokenId root, const TreeLimits& limits);

  // For a cycle that requested a draft: the policy's tree over `marginals`. If `marginals` are
  // empty because the draft failed: the draft-free tree or the root alone. REQUIRES: `marginals`
  // are valid.
  [[nodiscard]] GrownTree Grow(TokenId root, const Marginals& marginals, const TreeLimits& limits);

  // Learns from the outcome of verifying `grown`. `draft_time` is the time that the cycle waited
  // for its draft.
  void Observe(const GrownTree& grown, const Acceptance& acceptance, absl::Duration draft_time);

  [[nodiscard]] const Policy& policy() const { return policy_; }
  [[nodiscard]] const SpeculationState& state() const { return state_; }

 private:
  // True if the drafter's candidates are scored with learned weights.
  [[nodiscard]] bool UsesWeights() const {
    return prior_.has_value() || draft_mode_ == DraftMode::kCoupled;
  }
  // The policy's tree over `candidates`. `spine` is their top-1 path; only the adaptive policy
  // needs more than its root. `horizon` is the depth that the candidates would have without the
  // depth limit.
  [[nodiscard]] BudgetedTree GrowByPolicy(const DraftTree& spine, const Candidates& candidates,
                                          const TreeLimits& limits, int horizon) const;
  // The tree of a policy that specifies the size: beam, chain, fixed, ngram.
  [[nodiscard]] BudgetedTree GrowNamedSize(TokenId root, const Candidates& candidates,
                                           const TreeLimits& limits, int horizon) const;
  // REQUIRES: there is a prior.
  [[nodiscard]] DraftFreeTree GrowDraftFree(TokenId root, const TreeLimits& limits) const;
  [[nodiscard]] GrownTree MakeGrownTree(BudgetedTree budgeted, DraftTree spine,
                                        const TreeLimits& limits) const;
  // Makes the result from the draft-free tree of this cycle. REQUIRES: draft_free_ is set.
  [[nodiscard]] GrownTree TakeDraftFree(const TreeLimits& limits);

  // The number of candidates per node that WeightedCandidates and PriorCandidates list.
  [[nodiscard]] int MaxChildren(const TreeLimits& limits) const;
  // True if this cycle updates the weights. After the first updates, one cycle in four does,
  // because an update costs as much time as a tree.
  [[nodiscard]] bool ShouldUpdateWeights();
  // Updates the estimates that choose between a draft and the draft-free tree.
  void ObserveChoice(const GrownTree& grown, const CycleYield& yield);

  [[nodiscard]] CycleCost CostAt(int context) const;
  // The look-ahead of this cycle, created at the first call.
  [[nodiscard]] const LookAhead& LookAheadFor(const TreeLimits& limits) const;
  // The expected yield of verifying `tree`.
  [[nodiscard]] CycleYield YieldOf(const DraftFreeTree& tree, const CycleCost& cost) const;

  const Policy policy_;
  const DraftMode draft_mode_;
  const CostModel* const costs_;
  SharedSpeculation* const shared_;
  std::optional<TransitionPrior> prior_;
  SpeculationState state_;
  bool first_draft_ = true;
  DraftFreeBackoff backoff_;
  int update_chances_ = 0;                   // Cycles that could have updated the weights.
  std::optional<DraftFreeTree> draft_free_;  // The draft-free tree of this cycle, if any.
  mutable std::optional<LookAhead> look_;    // The look-ahead of this cycle, once created.
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_POLICY_TREE_GROWER_H_
