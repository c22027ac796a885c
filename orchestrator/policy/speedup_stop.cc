#include "orchestrator/policy/speedup_stop.h"

#include <limits>
#include <utility>
#include <vector>

#include "orchestrator/tree/best_first.h"

namespace bastion {

BudgetedTree GrowToSpeedupStop(TokenId root, const Candidates& candidates, const CycleCost& cost,
                               int max_nodes) {
  DraftTree tree(root);
  BestFirst best_first(candidates, max_nodes, &tree);
  // L_AR is the same for all N, so comparing Â/Ĉ is enough.
  const std::vector<double> seconds = cost.Curve(max_nodes);
  double expected_length = 1;
  double best_speedup = -std::numeric_limits<double>::infinity();
  while (tree.nodes() < max_nodes && !best_first.exhausted()) {
    expected_length += best_first.PeekScore();
    const double speedup = expected_length / seconds[tree.nodes() + 1];
    if (!(speedup > best_speedup)) return {std::move(tree), BudgetReason::kCost};
    best_speedup = speedup;
    best_first.AddNext();
  }
  const BudgetReason reason =
      best_first.exhausted() ? BudgetReason::kExhausted : BudgetReason::kCap;
  return {std::move(tree), reason};
}

}  // namespace bastion
