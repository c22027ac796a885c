// NamedPolicy: one request under a policy that states the size of its trees (ar, chain, beam,
// fixed, ngram, bastion, …). It always drafts if its rule wants drafts, in as many rounds as the
// tree needs, and every node of its tree is verified. Without a draft, the prior grows the tree
// alone if there is one. Only the prior and its weights learn. Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_POLICY_NAMED_POLICY_H_
#define BASTION_ORCHESTRATOR_POLICY_NAMED_POLICY_H_

#include <memory>
#include <optional>

#include "orchestrator/policy/request_policy.h"
#include "orchestrator/policy/tree_rule.h"

namespace bastion {

class NamedPolicy final : public RequestPolicy {
 public:
  // `rule` belongs to context.policy.
  NamedPolicy(const NamedRule& rule, const PolicyContext& context)
      : RequestPolicy(context),
        own_rule_(rule.ForRequest()),
        rule_(own_rule_ != nullptr ? *own_rule_ : rule),
        costs_(context.costs) {}

  bool planned() const override { return false; }
  TreeProposal ProposeTree() override;

 private:
  void OnBegin(absl::Span<const double> /*min_values*/) override { grown_.reset(); }
  std::optional<DraftRound> PlanRound() override;
  void OnDraft() override { Grow(); }
  GrownTree FinishTree(int nodes, BudgetReason reason) override;
  void Learn(const GrownTree& grown, absl::Span<const TokenId> chosen) override;

  // Grows the tree from the draft so far, or from the prior alone.
  void Grow();

  const std::unique_ptr<NamedRule> own_rule_;  // Null if the rule does not learn.
  const NamedRule& rule_;
  const CostModel* const costs_;

  // This cycle.
  std::optional<GrownTree> grown_;
  bool from_prior_ = false;  // The prior grew the tree alone.
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_POLICY_NAMED_POLICY_H_
