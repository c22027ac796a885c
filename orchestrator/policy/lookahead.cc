#include "orchestrator/policy/lookahead.h"

#include <algorithm>
#include <utility>

#include "orchestrator/tree/best_first.h"

namespace bastion {
namespace {

// [N] For each n: the lowest cost per node, in seconds, of any number of nodes added to the first
// n. This is the first slope of the largest convex curve below the costs from n on.
std::vector<double> LowestCosts(const std::vector<double>& seconds) {
  const auto slope = [&seconds](int from, int to) {
    return (seconds[to] - seconds[from]) / (to - from);
  };
  const auto max_nodes = static_cast<int>(seconds.size()) - 1;
  std::vector<double> costs(max_nodes);
  std::vector<int> corners = {max_nodes};  // Corners of the convex curve, from right to left.
  for (int nodes = max_nodes - 1; nodes >= 0; --nodes) {
    while (corners.size() >= 2 &&
           slope(nodes, corners.back()) >= slope(corners.back(), corners[corners.size() - 2])) {
      corners.pop_back();
    }
    costs[nodes] = slope(nodes, corners.back());
    corners.push_back(nodes);
  }
  return costs;
}

BudgetReason ReasonFor(int nodes, int available, int wanted, int max_nodes) {
  if (nodes == max_nodes) return BudgetReason::kCap;
  return nodes == available && available < wanted ? BudgetReason::kExhausted : BudgetReason::kCost;
}

}  // namespace

LookAhead::LookAhead(const CycleCost& cost, int max_nodes, double tokens_per_second,
                     double underestimate)
    : seconds_(cost.Curve(max_nodes)),
      price_of_second_(std::max(tokens_per_second, 1 / cost.PlainSeconds())),
      pace_(tokens_per_second > 0 ? price_of_second_ : 0),
      min_scores_(LowestCosts(seconds_)) {
  // Without a pace, the ratio decides. Then a second is worth at least the rate of the empty tree.
  const double price = pace_ > 0 ? pace_ : 1 / seconds_[0];
  for (double& score : min_scores_) score *= price / underestimate;
}

double LookAhead::Value(double expected_length, int nodes) const {
  return pace_ > 0 ? expected_length - pace_ * seconds_[nodes] : expected_length / seconds_[nodes];
}

int LookAhead::MaxUsefulNodes(int max_depth) const {
  int nodes = max_nodes();
  while (nodes > 0 && Value(max_depth + 1, nodes) <= Value(1, 0)) --nodes;
  return nodes;
}

int LookAhead::MaxUsefulChildren(int limit) const {
  constexpr double kAllowance = 2;
  double width = 1;
  for (int nodes = 1; nodes <= std::min(limit, max_nodes()); ++nodes) {
    // The price of one node in tokens.
    const double price = price_of_second_ * (seconds_[nodes] - seconds_[0]) / nodes;
    if (price * limit <= kAllowance) return limit;
    width = std::max(width, kAllowance / price);
  }
  return std::min(static_cast<int>(width), limit);
}

LookAhead::Choice LookAhead::BestPrefix(const DraftTree& tree, const Survival& survival,
                                        Choice best) const {
  const std::vector<double> values = survival.AcceptanceProbabilities(tree);
  double expected_length = 1;
  for (int nodes = 1; nodes <= std::min(tree.nodes(), max_nodes()); ++nodes) {
    expected_length += values[nodes];
    const double value = Value(expected_length, nodes);
    if (value > best.value) best = {nodes, expected_length, value};
  }
  return best;
}

BudgetedTree LookAhead::Grow(const DraftTree& spine, const Candidates& candidates,
                             const Survival& survival) const {
  int wanted = MaxUsefulNodes(candidates.max_depth());
  DraftTree tree(spine.token(0));
  BestFirst best_first(candidates, wanted, &tree);
  while (tree.nodes() < wanted && !best_first.exhausted() &&
         best_first.PeekScore() > min_scores_[tree.nodes()]) {
    best_first.AddNext();
  }
  if (!best_first.exhausted()) wanted = tree.nodes();
  const Choice chain = BestPrefix(spine, survival, {0, 1, Value(1, 0)});
  const Choice best = BestPrefix(tree, survival, chain);
  const BudgetReason reason = ReasonFor(best.nodes, tree.nodes(), wanted, max_nodes());
  if (best.value > chain.value) {
    tree.Truncate(best.nodes);
    return {std::move(tree), reason, best.expected_length};
  }
  DraftTree path = spine;
  path.Truncate(chain.nodes);
  return {std::move(path), reason, chain.expected_length};
}

}  // namespace bastion
