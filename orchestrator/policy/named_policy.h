// NamedPolicy: one request under a policy that states the size of its trees (ar, chain, beam,
// fixed, ngram, bastion). It always drafts if its rule wants drafts, and every node of its tree is
// verified. Without a draft, the prior grows the tree alone if there is one. Only the prior and its
// weights learn. Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_POLICY_NAMED_POLICY_H_
#define BASTION_ORCHESTRATOR_POLICY_NAMED_POLICY_H_

#include "orchestrator/policy/request_candidates.h"
#include "orchestrator/policy/request_policy.h"
#include "orchestrator/policy/tree_rule.h"

namespace bastion {

class NamedPolicy final : public RequestPolicy {
 public:
  // `rule` belongs to context.policy.
  NamedPolicy(const NamedRule& rule, const PolicyContext& context)
      : RequestPolicy(context.policy), rule_(rule), costs_(context.costs), candidates_(context) {}

  bool planned() const override { return false; }
  void ObservePrompt(absl::Span<const TokenId> prompt) override;
  void Begin(TokenId root, const TreeLimits& limits, absl::Span<const double> min_values) override;
  const DraftRound* NextRound() override;
  void AddDraft(Marginals marginals) override;
  TreeOffer OfferTree() override;
  GrownTree Finish(int nodes, BudgetReason reason) override;
  void Observe(const GrownTree& grown, const Acceptance& acceptance) override;

 private:
  const NamedRule& rule_;
  const CostModel* const costs_;
  RequestCandidates candidates_;

  // This cycle.
  TokenId root_ = 0;
  TreeLimits limits_;
  DraftRound round_;
  bool drafted_ = false;
  bool from_prior_ = false;  // The prior grew the tree alone.
  Marginals marginals_;
  GrownTree grown_ = {DraftTree(0)};
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_POLICY_NAMED_POLICY_H_
