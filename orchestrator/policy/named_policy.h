// NamedPolicy: one request under a policy that states the size of its trees (ar, chain, beam,
// fixed, ngram, bastion). It always drafts if its rule wants drafts, and every node of its tree is
// verified. Without a draft, the prior grows the tree alone if there is one. Only the prior and its
// weights learn. Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_POLICY_NAMED_POLICY_H_
#define BASTION_ORCHESTRATOR_POLICY_NAMED_POLICY_H_

#include <optional>

#include "orchestrator/policy/request_policy.h"
#include "orchestrator/policy/tree_rule.h"

namespace bastion {

class NamedPolicy final : public RequestPolicy {
 public:
  // `rule` belongs to context.policy.
  NamedPolicy(const NamedRule& rule, const PolicyContext& context)
      : RequestPolicy(context), rule_(rule), costs_(context.costs) {}

  bool planned() const override { return false; }
  TreeOffer OfferTree() override;

 private:
  void OnBegin(absl::Span<const double> /*min_values*/) override { from_prior_ = false; }
  std::optional<DraftRound> PlanRound() override;
  GrownTree FinishTree(int nodes, BudgetReason reason) override;
  void Learn(const GrownTree& grown, absl::Span<const TokenId> chosen) override;

  const NamedRule& rule_;
  const CostModel* const costs_;

  // This cycle.
  bool from_prior_ = false;  // The prior grew the tree alone.
  GrownTree grown_ = {DraftTree(0)};
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_POLICY_NAMED_POLICY_H_
