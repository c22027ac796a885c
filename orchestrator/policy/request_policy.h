// RequestPolicy: one request under its policy. It proposes what the request would verify, and
// learns from the outcome. The planner (forest_planner.h) sees the proposals of all requests of a
// batch before any tree is final. The calls of one cycle:
//
//   1. Begin: the root, the limits, and the values below which nodes cannot pay.
//   2. NextRound: the nodes that the drafter should expand next, and what that would bring. If the
//      round is required or the planner chooses it, AddDraft with the drafter's marginals, then
//      NextRound again. A block drafter serves one round, of the root.
//   3. ProposeTree: the nodes that the planner may choose from.
//   4. Finish: the tree, with as many nodes as the planner chose.
//   5. Observe: what the target accepted.
//
// There are two kinds. NamedRequest (named_request.h) serves the policies that state the size of
// their trees: their drafts are required and their trees certain. AdaptiveRequest
// (adaptive_request.h) leaves both to the planner. A tree never exceeds the limits on nodes and
// depth. Thread-compatible: used by the cycle's thread.
#ifndef BASTION_ORCHESTRATOR_POLICY_REQUEST_POLICY_H_
#define BASTION_ORCHESTRATOR_POLICY_REQUEST_POLICY_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/stages/marginals.h"
#include "common/stages/stage_data.h"
#include "orchestrator/planner/forest_planner.h"
#include "orchestrator/planner/grown_tree.h"
#include "orchestrator/policy/candidate_source.h"
#include "orchestrator/policy/policy.h"
#include "orchestrator/policy/policy_kind.h"
#include "orchestrator/policy/tree_limits.h"
#include "orchestrator/tree/cycle_draft.h"

namespace bastion {

// One Expand call that a request could use.
struct DraftRound {
  bool required = false;  // The policy always drafts. Else the planner compares `proposal`.
  bool further = false;   // Not the first round of the cycle. Set by NextRound.
  int candidates = 0;     // K: candidates per position.
  std::vector<TreePath> paths = {{}};  // The nodes to expand. The empty path is the root.
  DraftProposal proposal = {};
};

class RequestPolicy {
 public:
  explicit RequestPolicy(const PolicyContext& context)
      : policy_(context.policy),
        candidates_(context),
        reliability_(context.memory->reliability()) {}
  virtual ~RequestPolicy() = default;
  RequestPolicy(const RequestPolicy&) = delete;
  RequestPolicy& operator=(const RequestPolicy&) = delete;

  // How much the request's tokens count against those of other requests. 1 without this call.
  void set_weight(double weight) { weight_ = weight; }

  // Feeds the prompt to the prior, before the first cycle. The last token of the prompt is the
  // first root. Observe feeds the output tokens. Without this call, the prior knows only the
  // output. Prompts with the same `salt` reuse each other's counts.
  void ObservePrompt(absl::Span<const TokenId> prompt, const std::string& salt = {}) {
    candidates_.AppendPrompt(prompt, salt);
  }

  // True if the planner decides about drafts and nodes.
  [[nodiscard]] virtual bool planned() const = 0;

  // `min_values` is ForestPlanner::min_values(). It must outlive the cycle.
  void Begin(TokenId root, const TreeLimits& limits, absl::Span<const double> min_values);
  // The next round, or null if the policy would not use one. Valid until the next call.
  [[nodiscard]] const DraftRound* NextRound();
  // The drafter's reply to the last round: the marginals of its paths, in order. They may be empty,
  // and there may be fewer. `expands_nodes` is that of DrafterInfo. REQUIRES: the marginals are
  // valid.
  void AddDraft(std::vector<Marginals> marginals, bool expands_nodes = false);
  // The nodes that the planner may choose from. Valid until Finish.
  [[nodiscard]] virtual TreeProposal ProposeTree() = 0;
  // The tree of this cycle: the first `nodes` nodes of the proposal. `reason` says why not more.
  [[nodiscard]] GrownTree Finish(int nodes, BudgetReason reason);
  // What proposed the nodes of `tree`, the last tree. REQUIRES: it is not observed yet.
  [[nodiscard]] std::vector<NodeSource> SourcesOf(const DraftTree& tree) const {
    return candidates_.SourcesOf(tree, draft_);
  }
  // Learns from the outcome of verifying `grown`, the last tree.
  void Observe(const GrownTree& grown, const Acceptance& acceptance);

  [[nodiscard]] const Policy& policy() const { return policy_; }

 protected:
  // The steps that differ between policies. Begin, NextRound, AddDraft, Finish and Observe call
  // them, in this order. The accessors below are up to date by then.
  virtual void OnBegin(absl::Span<const double> min_values) = 0;
  // The next round, or nullopt. Called only if has_room(), and no longer after a round whose reply
  // was empty, or if the drafter expands only the root.
  [[nodiscard]] virtual std::optional<DraftRound> PlanRound() = 0;
  // After each round.
  virtual void OnDraft() {}
  [[nodiscard]] virtual GrownTree FinishTree(int nodes, BudgetReason reason) = 0;
  // The candidates of the last tree before calibration. Null if the tree is not calibrated.
  [[nodiscard]] virtual Candidates* uncalibrated() { return nullptr; }
  // `chosen` are the tokens that the target chose after the root. The prior does not know them yet.
  virtual void Learn(const GrownTree& grown, absl::Span<const TokenId> chosen) = 0;

  [[nodiscard]] CandidateSource& candidates() { return candidates_; }
  [[nodiscard]] double weight() const { return weight_; }
  [[nodiscard]] TokenId root() const { return root_; }
  [[nodiscard]] const TreeLimits& limits() const { return limits_; }
  [[nodiscard]] bool has_room() const { return limits_.nodes > 0 && limits_.depth > 0; }
  // All rounds of this cycle. Empty without a draft, and after a draft that came back empty.
  [[nodiscard]] CycleDraft& draft() { return draft_; }
  [[nodiscard]] const CycleDraft& draft() const { return draft_; }
  [[nodiscard]] int rounds() const { return rounds_; }  // Rounds of this cycle so far.

 private:
  const Policy policy_;
  CandidateSource candidates_;
  Reliability* const reliability_;  // Null: not collected.
  double weight_ = 1;

  // This cycle.
  TokenId root_ = 0;
  TreeLimits limits_;
  std::optional<DraftRound> round_;
  int rounds_ = 0;
  bool ended_ = false;  // The reply to the last round was empty.
  CycleDraft draft_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_POLICY_REQUEST_POLICY_H_
