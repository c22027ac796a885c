// BASTION's stop rule (Algorithm 1): grow the best-first tree while the estimated speedup
// Ŝ(N) = Â(T_N)·L_AR / Ĉ(N) rises, and return the tree before its first fall.
//
// As in the paper: Â are the drafter's own probabilities, N = 1 is always taken when there is a
// candidate, and a speedup that does not rise ends it. With a convex Ĉ the first fall is the global
// maximum (Proposition 2.4); on a staircase it is a local one, which is why lookahead.h exists.
// Thread-safe: no state.
#ifndef BASTION_ORCHESTRATOR_POLICY_SPEEDUP_STOP_H_
#define BASTION_ORCHESTRATOR_POLICY_SPEEDUP_STOP_H_

#include "common/base/ids.h"
#include "orchestrator/cost/cycle_cost.h"
#include "orchestrator/policy/grown_tree.h"
#include "orchestrator/tree/candidates.h"

namespace bastion {

// REQUIRES: max_nodes >= 0.
[[nodiscard]] BudgetedTree GrowToSpeedupStop(TokenId root, const Candidates& rows,
                                             const CycleCost& cost, int max_nodes);

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_POLICY_SPEEDUP_STOP_H_
