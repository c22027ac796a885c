// adaptive: the planner decides (adaptive_policy.h). Header-only.
#ifndef BASTION_ORCHESTRATOR_POLICY_ADAPTIVE_RULE_H_
#define BASTION_ORCHESTRATOR_POLICY_ADAPTIVE_RULE_H_

#include <algorithm>
#include <memory>

#include "orchestrator/policy/adaptive_policy.h"
#include "orchestrator/policy/tree_rule.h"

namespace bastion {

class AdaptiveRule final : public TreeRule {
 public:
  int CandidatesFor(int max_nodes) const override {
    return std::min(kMaxUsefulCandidates, max_nodes);
  }
  std::unique_ptr<RequestPolicy> NewRequest(const PolicyContext& context) const override {
    return std::make_unique<AdaptivePolicy>(context);
  }
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_POLICY_ADAPTIVE_RULE_H_
