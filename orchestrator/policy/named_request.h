// NamedRequest: one request under a policy that states the size of its trees (ar, chain, beam,
// fixed, ngram, bastion, …). It always drafts if its kind wants drafts, in as many rounds as the
// tree needs, and every node of its tree is verified. Without a draft, the prior grows the tree
// alone if there is one. Only the prior and its weights learn. Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_POLICY_NAMED_REQUEST_H_
#define BASTION_ORCHESTRATOR_POLICY_NAMED_REQUEST_H_

#include <memory>
#include <optional>

#include "orchestrator/policy/policy_kind.h"
#include "orchestrator/policy/request_policy.h"

namespace bastion {

class NamedRequest final : public RequestPolicy {
 public:
  // `kind` belongs to context.policy.
  NamedRequest(const NamedPolicyKind& kind, const PolicyContext& context)
      : RequestPolicy(context),
        own_kind_(kind.ForRequest(context)),
        kind_(own_kind_ != nullptr ? *own_kind_ : kind),
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

  const std::unique_ptr<NamedPolicyKind> own_kind_;  // Null if the kind does not learn.
  const NamedPolicyKind& kind_;
  const CostModel* const costs_;

  // This cycle.
  std::optional<GrownTree> grown_;
  bool from_prior_ = false;  // The prior grew the tree alone.
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_POLICY_NAMED_REQUEST_H_
