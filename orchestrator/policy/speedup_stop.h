// The stop rule of the BASTION paper (Algorithm 1): grow the best-first tree while the estimated
// speedup Ŝ(N) = Â(T_N)·L_AR / Ĉ(N) increases, and return the tree before its first decrease. T_N
// is the best-first tree of N nodes and Â its expected committed length. Ĉ and L_AR: cycle_cost.h.
//
// As in the paper, Â uses the drafter's own probabilities, the first node is always added if there
// is a candidate, and growth stops when the speedup does not increase. If Ĉ is convex, the returned
// tree is the global maximum (Proposition 2.4). On a staircase it may be only a local maximum; see
// lookahead.h. Thread-safe: no state.
#ifndef BASTION_ORCHESTRATOR_POLICY_SPEEDUP_STOP_H_
#define BASTION_ORCHESTRATOR_POLICY_SPEEDUP_STOP_H_

#include "common/base/ids.h"
#include "orchestrator/cost/cycle_cost.h"
#include "orchestrator/policy/grown_tree.h"
#include "orchestrator/tree/candidates.h"

namespace bastion {

// REQUIRES: max_nodes >= 0.
[[nodiscard]] BudgetedTree GrowToSpeedupStop(TokenId root, const Candidates& candidates,
                                             const CycleCost& cost, int max_nodes);

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_POLICY_SPEEDUP_STOP_H_
