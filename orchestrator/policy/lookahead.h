// LookAhead: finds the best number of nodes over the whole measured range. A rule that stops at the
// first node that is not worth its cost would stop before the first jump of the cost curve, even if
// a tree that extends far past the jump is better.
//
// It compares the empty tree, the chain of every length and the best-first tree of every size up to
// max_nodes. For a tree of N nodes, Â(N) is the expected committed length, calibrated by Survival,
// and Ĉ(N) is the cost in seconds (cycle_cost.h). The winner has the largest
//   Â(N) − pace·Ĉ(N)   if the pace (recent tokens per second) is known, else
//   Â(N) / Ĉ(N).
// The ratio is the speedup of the BASTION paper, up to a constant. It is the best choice if all
// cycles are alike. Where cycles differ, time saved in a hard cycle can be spent in an easier one,
// so time has a price: the pace. The long-run rate is highest when every cycle adds all nodes that
// yield more than their price (Dinkelbach's method for the maximum of a ratio of sums). The pace
// used is never below the rate of plain decoding. Ties go to the chain over the tree and to fewer
// nodes over more. Thread-safe: immutable.
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
  // Compares trees of at most `max_nodes` >= 0 nodes. `tokens_per_second` is the pace; 0: unknown.
  // The true acceptance probability of a path is assumed to be at most `underestimate` times its
  // score. The default sets no bound, because Survival may raise the probability of every node of a
  // path. If the scores are fitted to outcomes, a bound avoids growing nodes that would not be
  // used.
  LookAhead(const CycleCost& cost, int max_nodes, double tokens_per_second = 0,
            double underestimate = std::numeric_limits<double>::infinity());

  // The price of one second in tokens: the pace, but at least the rate of plain decoding.
  [[nodiscard]] double price_of_second() const { return price_of_second_; }

  // [max_nodes] min_scores()[n] is the smallest path score at which node n + 1 can be worth its
  // cost. It takes into account that the nodes after node n + 1 may be cheap.
  [[nodiscard]] const std::vector<double>& min_scores() const { return min_scores_; }

  // The largest number of children of one node that could be worth their cost, at most `limit`. The
  // least probable of w siblings is accepted with probability 1/w at most. The bound assumes 2/w,
  // in case the drafter underestimates.
  [[nodiscard]] int MaxUsefulChildren(int limit) const;

  // The best tree. `spine` is the top-1 chain of `candidates`, grown while its scores exceed
  // min_scores().
  [[nodiscard]] BudgetedTree Grow(const DraftTree& spine, const Candidates& candidates,
                                  const Survival& survival) const;

 private:
  struct Choice {
    int nodes = 0;
    double expected_length = 1;
    double value = 0;
  };
  [[nodiscard]] int max_nodes() const { return static_cast<int>(seconds_.size()) - 1; }
  // The quantity that the winner maximizes.
  [[nodiscard]] double Value(double expected_length, int nodes) const;
  // The largest size that could beat the empty tree if a path of `max_depth` nodes were certain.
  [[nodiscard]] int MaxUsefulNodes(int max_depth) const;
  // Compares `best` with the first n nodes of `tree`, for every n >= 1. Returns the best of all.
  [[nodiscard]] Choice BestPrefix(const DraftTree& tree, const Survival& survival,
                                  Choice best) const;

  const std::vector<double> seconds_;  // Ĉ(0), Ĉ(1), …
  const double price_of_second_;
  const double pace_;  // 0: unknown.
  std::vector<double> min_scores_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_POLICY_LOOKAHEAD_H_
