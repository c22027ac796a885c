// ar: plain decoding. No drafts, no nodes. Header-only.
#ifndef BASTION_ORCHESTRATOR_POLICY_AR_RULE_H_
#define BASTION_ORCHESTRATOR_POLICY_AR_RULE_H_

#include <memory>
#include <optional>
#include <string_view>

#include "orchestrator/policy/tree_rule.h"

namespace bastion {

class ArRule final : public NamedRule {
 public:
  static std::unique_ptr<const TreeRule> Parse(std::optional<std::string_view> argument) {
    return argument.has_value() ? nullptr : std::make_unique<ArRule>();
  }
  bool wants_draft() const override { return false; }
  int CandidatesFor(int /*max_nodes*/) const override { return 0; }
  SizedTree Grow(TokenId root, const Candidates& /*candidates*/, const TreeLimits& /*limits*/,
                 int /*horizon*/, const CostModel& /*costs*/) const override {
    return {DraftTree(root), BudgetReason::kPolicy};
  }
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_POLICY_AR_RULE_H_
