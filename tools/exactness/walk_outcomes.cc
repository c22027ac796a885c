#include "tools/exactness/walk_outcomes.h"

#include <cmath>

namespace bastion {

absl::StatusOr<size_t> WalkOutcomes::CellOf(const Acceptance& acceptance) const {
  NodeIndex last = 0;
  for (const NodeIndex node : acceptance.path) {
    if (node <= 0 || node >= tree_->rows() || tree_->parent(node) != last) {
      return absl::DataLossError(
          "the verifier accepted nodes that do not form a path from the root");
    }
    last = node;
  }
  if (acceptance.next < 0 || acceptance.next >= vocabulary_) {
    return absl::DataLossError("the verifier chose a token outside its vocabulary");
  }
  return Cell(last, acceptance.next);
}

std::vector<double> WalkOutcomes::ReachProbabilities(
    const std::vector<std::vector<double>>& distributions) const {
  std::vector<double> reach(tree_->rows(), 1);
  for (NodeIndex node = 1; node < tree_->rows(); ++node) {
    const NodeIndex parent = tree_->parent(node);
    reach[node] = reach[parent] * distributions[parent][tree_->token(node)];
  }
  return reach;
}

std::vector<double> WalkOutcomes::Probabilities(
    const std::vector<std::vector<double>>& distributions) const {
  std::vector<double> probabilities(cells());
  const std::vector<double> reach = ReachProbabilities(distributions);
  for (NodeIndex node = 0; node < tree_->rows(); ++node) {
    for (TokenId token = 0; token < vocabulary_; ++token) {
      probabilities[Cell(node, token)] = reach[node] * distributions[node][token];
    }
  }
  // A walk that chooses the token of a child continues at the child, so it never ends at the parent
  // with that token.
  for (NodeIndex node = 1; node < tree_->rows(); ++node) {
    probabilities[Cell(tree_->parent(node), tree_->token(node))] = 0;
  }
  return probabilities;
}

double WalkOutcomes::EntropyBelowRoot(const std::vector<std::vector<double>>& distributions) const {
  const std::vector<double> reach = ReachProbabilities(distributions);
  double sum = 0;
  for (NodeIndex node = 1; node < tree_->rows(); ++node) {
    for (const double p : distributions[node]) {
      if (p > 0) sum -= reach[node] * p * std::log(p);
    }
  }
  return sum;
}

size_t WalkOutcomes::TruncateWalk(size_t cell, int choices) const {
  const auto last = NodeIndex::Of(cell / vocabulary_);
  if (choices == 0 || tree_->depth(last) < choices) return cell;
  NodeIndex node = last;
  while (tree_->depth(node) > choices) node = tree_->parent(node);
  return Cell(tree_->parent(node), tree_->token(node));
}

}  // namespace bastion
