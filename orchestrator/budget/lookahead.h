// LookAhead: the best number of nodes over the whole measured range, instead of the first place
// where one more node does not pay.
//
// Candidates are the empty tree, the chain of every length and the best-first tree of every size up
// to max_nodes; a candidate's expected length Â is calibrated by Survival, its cost is Ĉ. The
// winner has the largest
//   Â(N) − pace·Ĉ(N)   when the pace (tokens per second of late) is known, else
//   Â(N) / Ĉ(N).
// The ratio is BASTION's speedup. It is the best choice if every cycle were like this one; where
// cycles differ, time saved in a hard cycle is spent in easier ones, so time has a price, and the
// long-run rate is highest when every cycle buys all that is cheaper (Dinkelbach's method for the
// maximum of a ratio of sums). The pace is never taken below that of plain decoding.
// Of equals the chain and the smaller tree win. Thread-safe: no state.
#ifndef BASTION_ORCHESTRATOR_BUDGET_LOOKAHEAD_H_
#define BASTION_ORCHESTRATOR_BUDGET_LOOKAHEAD_H_

#include "common/base/ids.h"
#include "orchestrator/budget/cycle_cost.h"
#include "orchestrator/budget/grown_tree.h"
#include "orchestrator/budget/survival.h"
#include "orchestrator/tree/candidate_scores.h"

namespace bastion {

struct LookAheadTerms {
  CycleCost cost;
  const Survival* survival;      // Not owned.
  double tokens_per_second = 0;  // The pace; 0: not known yet.
};

// The most children of one node that could pay, at most `most`: the last of w siblings is accepted
// with a chance of no more than 1/w (twice that is allowed, for a drafter unsure of itself).
[[nodiscard]] int WidestFan(const LookAheadTerms& terms, int most);

// `spine` is the chain over all positions of `scores`. REQUIRES: max_nodes >= 0.
[[nodiscard]] BudgetedTree GrowLookAhead(const DraftTree& spine, const CandidateScores& scores,
                                         const LookAheadTerms& terms, int max_nodes);

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_BUDGET_LOOKAHEAD_H_
