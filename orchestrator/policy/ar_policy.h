// ar: plain decoding. No drafts, no nodes. Header-only.
#ifndef BASTION_ORCHESTRATOR_POLICY_AR_POLICY_H_
#define BASTION_ORCHESTRATOR_POLICY_AR_POLICY_H_

#include "orchestrator/policy/policy_kind.h"

namespace bastion {

class ArPolicy final : public NamedPolicyKind {
 public:
  bool wants_draft() const override { return false; }
  int CandidatesFor(int /*max_nodes*/) const override { return 0; }
  GrownTree Grow(TokenId root, Candidates& /*candidates*/, const TreeLimits& /*limits*/,
                 int /*horizon*/, const CostModel& /*costs*/) const override {
    return {DraftTree(root), BudgetReason::kPolicy};
  }
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_POLICY_AR_POLICY_H_
