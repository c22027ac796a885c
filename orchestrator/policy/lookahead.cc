#include "orchestrator/policy/lookahead.h"

#include <algorithm>
#include <utility>

#include "orchestrator/tree/best_first.h"

namespace bastion {
namespace {

// [N] the least price per node of any nodes that could follow the first n: the first slope of the
// largest convex curve under the costs from n on.
std::vector<double> Prices(const std::vector<double>& seconds) {
  const auto slope = [&seconds](int from, int to) {
    return (seconds[to] - seconds[from]) / (to - from);
  };
  const auto most = static_cast<int>(seconds.size()) - 1;
  std::vector<double> prices(most);
  std::vector<int> corners = {most};  // From the right.
  for (int nodes = most - 1; nodes >= 0; --nodes) {
    while (corners.size() >= 2 &&
           slope(nodes, corners.back()) >= slope(corners.back(), corners[corners.size() - 2])) {
      corners.pop_back();
    }
    prices[nodes] = slope(nodes, corners.back());
    corners.push_back(nodes);
  }
  return prices;
}

BudgetReason ReasonFor(int nodes, int available, int wanted, int max_nodes) {
  if (nodes == max_nodes) return BudgetReason::kCap;
  return nodes == available && available < wanted ? BudgetReason::kExhausted : BudgetReason::kCost;
}

}  // namespace

LookAhead::LookAhead(const CycleCost& cost, int max_nodes, double tokens_per_second,
                     double underestimate)
    : seconds_(cost.Curve(max_nodes)),
      worth_of_a_second_(std::max(tokens_per_second, 1 / cost.PlainSeconds())),
      pace_(tokens_per_second > 0 ? worth_of_a_second_ : 0),
      least_scores_(Prices(seconds_)) {
  // Where the ratio decides, a second is worth at least what the empty tree makes of it.
  const double worth = pace_ > 0 ? pace_ : 1 / seconds_[0];
  for (double& score : least_scores_) score *= worth / underestimate;
}

double LookAhead::Value(double expected_length, int nodes) const {
  return pace_ > 0 ? expected_length - pace_ * seconds_[nodes] : expected_length / seconds_[nodes];
}

// The largest size that could beat the empty tree if every node of its longest path were certain.
int LookAhead::MostNodes(int positions) const {
  int nodes = max_nodes();
  while (nodes > 0 && Value(positions + 1, nodes) <= Value(1, 0)) --nodes;
  return nodes;
}

int LookAhead::WidestFan(int most) const {
  constexpr double kAllowance = 2;
  double width = 1;
  for (int nodes = 1; nodes <= std::min(most, max_nodes()); ++nodes) {
    // Of one node.
    const double price = worth_of_a_second_ * (seconds_[nodes] - seconds_[0]) / nodes;
    if (price * most <= kAllowance) return most;
    width = std::max(width, kAllowance / price);
  }
  return std::min(static_cast<int>(width), most);
}

// The best of the first n nodes of `tree`, n >= 1, or `best` where none is better.
LookAhead::Choice LookAhead::BestPrefix(const DraftTree& tree, const Survival& survival,
                                        Choice best) const {
  const std::vector<double> values = survival.Values(tree);
  double expected_length = 1;
  for (int nodes = 1; nodes <= std::min(tree.nodes(), max_nodes()); ++nodes) {
    expected_length += values[nodes];
    const double value = Value(expected_length, nodes);
    if (value > best.value) best = {nodes, expected_length, value};
  }
  return best;
}

BudgetedTree LookAhead::Grow(const DraftTree& spine, const Candidates& rows,
                             const Survival& survival) const {
  int wanted = MostNodes(rows.max_depth());
  DraftTree tree(spine.token(0));
  BestFirst best_first(rows, wanted, &tree);
  while (tree.nodes() < wanted && !best_first.exhausted() &&
         best_first.PeekScore() > least_scores_[tree.nodes()]) {
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
