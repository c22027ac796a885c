#include "orchestrator/policy/bastion_rule.h"

#include <limits>
#include <utility>
#include <vector>

#include "orchestrator/tree/best_first.h"

namespace bastion {

GrownTree GrowToSpeedupStop(TokenId root, const Candidates& candidates, const CycleCost& cost,
                            const TreeLimits& limits) {
  DraftTree tree(root);
  BestFirst best_first(candidates, limits.nodes, &tree);
  // L_AR is the same for all N, so comparing Â/Ĉ is enough.
  const std::vector<double> seconds = cost.Curve(limits.nodes);
  double expected_length = 1;
  double best_speedup = -std::numeric_limits<double>::infinity();
  while (tree.nodes() < limits.nodes && !best_first.exhausted()) {
    expected_length += best_first.PeekScore();
    const double speedup = expected_length / seconds[tree.nodes() + 1];
    if (!(speedup > best_speedup)) return {std::move(tree), BudgetReason::kCost};
    best_speedup = speedup;
    best_first.AddNext();
  }
  return {std::move(tree), best_first.exhausted() ? BudgetReason::kExhausted : limits.reason};
}

GrownTree BastionRule::Grow(TokenId root, const Candidates& candidates, const TreeLimits& limits,
                            int /*horizon*/, const CostModel& costs) const {
  return GrowToSpeedupStop(root, candidates, costs.PaperCost(limits.context), limits);
}

}  // namespace bastion
