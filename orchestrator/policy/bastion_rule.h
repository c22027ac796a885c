// bastion: the stop rule of the BASTION paper (Algorithm 1). It grows the best-first tree while the
// estimated speedup Ŝ(N) = Â(T_N)·L_AR / Ĉ(N) increases, and returns the tree before its first
// decrease. T_N is the best-first tree of N nodes and Â its expected committed length. Ĉ and L_AR:
// cycle_cost.h.
//
// As in the paper, Â uses the drafter's own probabilities, the first node is always added if there
// is a candidate, and growth stops when the speedup does not increase. If Ĉ is convex, the returned
// tree is the global maximum (Proposition 2.4). On a staircase it may be only a local maximum; see
// forest_planner.h. Thread-safe: no state.
#ifndef BASTION_ORCHESTRATOR_POLICY_BASTION_RULE_H_
#define BASTION_ORCHESTRATOR_POLICY_BASTION_RULE_H_

#include <algorithm>

#include "orchestrator/cost/cycle_cost.h"
#include "orchestrator/policy/tree_rule.h"

namespace bastion {

class BastionRule final : public NamedRule {
 public:
  int CandidatesFor(int max_nodes) const override {
    return std::min(kMaxUsefulCandidates, max_nodes);
  }
  GrownTree Grow(TokenId root, const Candidates& candidates, const TreeLimits& limits, int horizon,
                 const CostModel& costs) const override;
};

// The rule itself.
[[nodiscard]] GrownTree GrowToSpeedupStop(TokenId root, const Candidates& candidates,
                                          const CycleCost& cost, const TreeLimits& limits);

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_POLICY_BASTION_RULE_H_
