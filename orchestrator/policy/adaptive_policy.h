// adaptive: the planner decides (adaptive_request.h). Header-only.
#ifndef BASTION_ORCHESTRATOR_POLICY_ADAPTIVE_POLICY_H_
#define BASTION_ORCHESTRATOR_POLICY_ADAPTIVE_POLICY_H_

#include <algorithm>
#include <memory>

#include "orchestrator/policy/adaptive_request.h"
#include "orchestrator/policy/policy_kind.h"

namespace bastion {

class AdaptivePolicy final : public PolicyKind {
 public:
  int CandidatesFor(int max_nodes) const override {
    return std::min(kMaxUsefulCandidates, max_nodes);
  }
  std::unique_ptr<RequestPolicy> NewRequest(const PolicyContext& context) const override {
    return std::make_unique<AdaptiveRequest>(context);
  }
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_POLICY_ADAPTIVE_POLICY_H_
