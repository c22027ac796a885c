// RequestPolicy: one request under its policy. It proposes what the request would verify, and
// learns from the outcome. The planner (forest_planner.h) sees the proposals of all requests of a
// batch before any tree is final. The calls of one cycle:
//
//   1. Begin: the root, the limits, and the values below which nodes cannot pay.
//   2. NextRound: what a draft would bring. If the round is required or the planner chooses it,
//      AddDraft with the drafter's marginals, then NextRound again.
//   3. OfferTree: the nodes that the planner may choose from.
//   4. Finish: the tree, with as many nodes as the planner chose.
//   5. Observe: what the target accepted.
//
// There are two kinds. NamedPolicy (named_policy.h) serves the policies that state the size of
// their trees: their drafts are required and their trees certain. AdaptivePolicy
// (adaptive_policy.h) leaves both to the planner. A tree never exceeds the limits on nodes and
// depth. Thread-compatible: used by the cycle's thread.
#ifndef BASTION_ORCHESTRATOR_POLICY_REQUEST_POLICY_H_
#define BASTION_ORCHESTRATOR_POLICY_REQUEST_POLICY_H_

#include <utility>

#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/stages/marginals.h"
#include "common/stages/stage_data.h"
#include "orchestrator/policy/forest_planner.h"
#include "orchestrator/policy/grown_tree.h"
#include "orchestrator/policy/policy.h"
#include "orchestrator/policy/tree_limits.h"

namespace bastion {

// One Expand call that a request could use. Today's drafters predict all positions in one round, so
// a round expands the root.
struct DraftRound {
  bool required = false;  // The policy always drafts. Else the planner compares `offer`.
  int candidates = 0;     // K: candidates per position.
  DraftOffer offer = {};
};

class RequestPolicy {
 public:
  explicit RequestPolicy(Policy policy) : policy_(std::move(policy)) {}
  virtual ~RequestPolicy() = default;
  RequestPolicy(const RequestPolicy&) = delete;
  RequestPolicy& operator=(const RequestPolicy&) = delete;

  // Feeds the prompt to the prior, before the first cycle. The last token of the prompt is the
  // first root. Observe feeds the output tokens. Without this call, the prior knows only the
  // output.
  virtual void ObservePrompt(absl::Span<const TokenId> prompt) = 0;

  // True if the planner decides about drafts and nodes.
  [[nodiscard]] virtual bool planned() const = 0;

  // `min_values` is ForestPlanner::min_values(). It must outlive the cycle.
  virtual void Begin(TokenId root, const TreeLimits& limits,
                     absl::Span<const double> min_values) = 0;
  // The next round, or null if the policy would not use one. Valid until the next call.
  [[nodiscard]] virtual const DraftRound* NextRound() = 0;
  // REQUIRES: `marginals` are valid.
  virtual void AddDraft(Marginals marginals) = 0;
  // The nodes that the planner may choose from. Valid until Finish.
  [[nodiscard]] virtual TreeOffer OfferTree() = 0;
  // The tree of this cycle: the first `nodes` nodes of the offer. `reason` says why not more.
  [[nodiscard]] virtual GrownTree Finish(int nodes, BudgetReason reason) = 0;
  // Learns from the outcome of verifying `grown`, the last tree.
  virtual void Observe(const GrownTree& grown, const Acceptance& acceptance) = 0;

  [[nodiscard]] const Policy& policy() const { return policy_; }

 private:
  const Policy policy_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_POLICY_REQUEST_POLICY_H_
