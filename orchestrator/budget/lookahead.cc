#include "orchestrator/budget/lookahead.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "orchestrator/tree/best_first.h"

namespace bastion {
namespace {

struct Choice {
  int nodes = 0;
  double value = 0;
};

// What a second is worth, never less than plain decoding makes of it.
double Pace(const LookAheadTerms& terms) {
  return std::max(terms.tokens_per_second, 1 / terms.cost.PlainSeconds());
}

class Objective {
 public:
  Objective(const LookAheadTerms& terms, int max_nodes)
      : survival_(*terms.survival), seconds_(terms.cost.Curve(max_nodes)) {
    if (terms.tokens_per_second > 0) pace_ = Pace(terms);
  }

  [[nodiscard]] Choice EmptyTree() const { return {0, Value(/*expected_length=*/1, 0)}; }

  // The largest size that could beat the empty tree if every node of its longest path were certain.
  [[nodiscard]] int MostNodes(int positions) const {
    int nodes = static_cast<int>(seconds_.size()) - 1;
    while (nodes > 0 && Value(positions + 1, nodes) <= EmptyTree().value) --nodes;
    return nodes;
  }

  // The best of the first n nodes of `tree`, n >= 1, or `best` where none is better.
  [[nodiscard]] Choice BestPrefix(const DraftTree& tree, Choice best) const {
    const std::vector<double> values = survival_.Values(tree);
    const int most = std::min(tree.nodes(), static_cast<int>(seconds_.size()) - 1);
    double expected_length = 1;
    for (int nodes = 1; nodes <= most; ++nodes) {
      expected_length += values[nodes];
      const double value = Value(expected_length, nodes);
      if (value > best.value) best = {nodes, value};
    }
    return best;
  }

 private:
  [[nodiscard]] double Value(double expected_length, int nodes) const {
    return pace_ > 0 ? expected_length - pace_ * seconds_[nodes]
                     : expected_length / seconds_[nodes];
  }

  const Survival& survival_;
  const std::vector<double> seconds_;  // Ĉ by nodes.
  double pace_ = 0;
};

BudgetReason ReasonFor(int nodes, int available, int wanted, int max_nodes) {
  if (nodes == max_nodes) return BudgetReason::kCap;
  return nodes == available && available < wanted ? BudgetReason::kExhausted : BudgetReason::kCost;
}

}  // namespace

int WidestFan(const LookAheadTerms& terms, int most) {
  constexpr double kAllowance = 2;
  const std::vector<double> seconds = terms.cost.Curve(most);
  double width = 1;
  for (int nodes = 1; nodes <= most; ++nodes) {
    const double price = Pace(terms) * (seconds[nodes] - seconds[0]) / nodes;  // Of one node.
    if (price * most <= kAllowance) return most;
    width = std::max(width, kAllowance / price);
  }
  return static_cast<int>(width);
}

BudgetedTree GrowLookAhead(const DraftTree& spine, const CandidateScores& scores,
                           const LookAheadTerms& terms, int max_nodes) {
  const Objective objective(terms, max_nodes);
  const int wanted = objective.MostNodes(scores.positions);
  DraftTree tree = GrowBestFirst(spine.token(0), scores, wanted);
  const Choice chain = objective.BestPrefix(spine, objective.EmptyTree());
  const Choice best = objective.BestPrefix(tree, chain);
  const BudgetReason reason = ReasonFor(best.nodes, tree.nodes(), wanted, max_nodes);
  if (best.value > chain.value) {
    tree.Truncate(best.nodes);
    return {std::move(tree), reason};
  }
  DraftTree path = spine;
  path.Truncate(chain.nodes);
  return {std::move(path), reason};
}

}  // namespace bastion
