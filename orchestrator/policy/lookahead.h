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
#ifndef BASTION_ORCHESTRATOR_POLICY_LOOKAHEAD_H_
#define BASTION_ORCHESTRATOR_POLICY_LOOKAHEAD_H_

#include <limits>
#include <vector>

#include "common/base/ids.h"
#include "orchestrator/cost/cycle_cost.h"
#include "orchestrator/policy/grown_tree.h"
#include "orchestrator/policy/survival.h"
#include "orchestrator/tree/candidates.h"

namespace bastion {

class LookAhead {
 public:
  // Weighs trees of at most `max_nodes` >= 0. `tokens_per_second` is the pace; 0: not known yet.
  // `underestimate` says how far a path score may be below the chance of acceptance. By itself
  // there is no limit: Survival corrects every step of a path. Where scores are fitted to outcomes,
  // a limit saves growing what will not be taken.
  LookAhead(const CycleCost& cost, int max_nodes, double tokens_per_second = 0,
            double underestimate = std::numeric_limits<double>::infinity());

  // In tokens; never less than plain decoding makes of it.
  [[nodiscard]] double worth_of_a_second() const { return worth_of_a_second_; }

  // [max_nodes] the path score below which the node after so many is not worth its cost, not even
  // where steps of the cost curve make the nodes after it cheap.
  [[nodiscard]] const std::vector<double>& least_scores() const { return least_scores_; }

  // The most children of one node that could pay, at most `most`: the last of w siblings is
  // accepted with a chance of no more than 1/w (twice that is allowed, for a drafter unsure of
  // itself).
  [[nodiscard]] int WidestFan(int most) const;

  // The best tree. `spine` is the chain over the positions of `rows`, as far as it may pay.
  [[nodiscard]] BudgetedTree Grow(const DraftTree& spine, const Candidates& rows,
                                  const Survival& survival) const;

 private:
  struct Choice {
    int nodes = 0;
    double expected_length = 1;
    double value = 0;
  };
  [[nodiscard]] int max_nodes() const { return static_cast<int>(seconds_.size()) - 1; }
  [[nodiscard]] double Value(double expected_length, int nodes) const;
  [[nodiscard]] int MostNodes(int positions) const;
  [[nodiscard]] Choice BestPrefix(const DraftTree& tree, const Survival& survival,
                                  Choice best) const;

  const std::vector<double> seconds_;  // Ĉ by nodes.
  const double worth_of_a_second_;
  const double pace_;
  std::vector<double> least_scores_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_POLICY_LOOKAHEAD_H_
