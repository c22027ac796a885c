// ar: plain decoding. No drafts, no nodes. Header-only.
#ifndef BASTION_ORCHESTRATOR_POLICY_AR_RULE_H_
#define BASTION_ORCHESTRATOR_POLICY_AR_RULE_H_

#include "orchestrator/policy/tree_rule.h"

namespace bastion {

class ArRule final : public NamedRule {
 public:
  bool wants_draft() const override { return false; }
  int CandidatesFor(int /*max_nodes*/) const override { return 0; }
  GrownTree Grow(TokenId root, Candidates& /*candidates*/, const TreeLimits& /*limits*/,
                 int /*horizon*/, const CostModel& /*costs*/) const override {
    return {DraftTree(root), BudgetReason::kPolicy};
  }
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_POLICY_AR_RULE_H_
