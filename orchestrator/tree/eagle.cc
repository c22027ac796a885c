#include "orchestrator/tree/eagle.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <numeric>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "orchestrator/tree/keep_best.h"

namespace bastion {
namespace {

// All nodes that were scored, the root first. Each is known by its index.
class Pool {
 public:
  explicit Pool(TokenId root) : expanded_(root) {
    nodes_.push_back({.parent = 0, .token = root, .log_score = 0});
  }

  // Expands the `width` best nodes of the newest level into up to `width` children each. False if
  // no child was found.
  bool Expand(int width, Candidates& candidates) {
    const size_t level = std::exchange(newest_level_, nodes_.size());
    for (const size_t parent : Best(level, width)) {
      const NodeIndex node = Place(parent, &expanded_);
      const CandidateList list = candidates.After(expanded_, node);
      for (int rank = 0; rank < std::min(width, list.size); ++rank) {
        const double log_score =
            nodes_[parent].log_score + static_cast<double>(list.log_scores[rank]);
        if (std::isinf(log_score)) break;
        nodes_.push_back({parent, list.tokens[rank], log_score});
      }
    }
    return newest_level_ < nodes_.size();
  }

  // The tree of the `rows` best nodes, the root included.
  DraftTree TreeOfBest(int rows) {
    std::vector<size_t> best = Best(0, rows);
    std::sort(best.begin(), best.end());
    DraftTree tree(nodes_[0].token);
    tree.Reserve(static_cast<int>(best.size()) - 1);
    for (const size_t node : best) Place(node, &tree);
    return tree;
  }

 private:
  struct Node {
    size_t parent;
    TokenId token;
    double log_score;
    NodeIndex placed = 0;  // Its index in the tree in which it was placed last.
  };

  // The `count` best nodes from index `begin` on, best first.
  std::vector<size_t> Best(size_t begin, int count) const {
    std::vector<size_t> best(nodes_.size() - begin);
    std::iota(best.begin(), best.end(), begin);
    KeepBest(
        count, [this](size_t node) { return nodes_[node].log_score; }, &best);
    return best;
  }

  // Adds `node` to `tree`, which already has its parent and the root.
  NodeIndex Place(size_t node, DraftTree* tree) {
    if (node == 0) return nodes_[0].placed;
    const Node& parent = nodes_[nodes_[node].parent];
    return nodes_[node].placed = tree->Add(parent.placed, nodes_[node].token,
                                           static_cast<float>(nodes_[node].log_score));
  }

  std::vector<Node> nodes_;
  size_t newest_level_ = 0;  // The index of its first node.
  DraftTree expanded_;       // The root and all beams.
};

}  // namespace

DraftTree GrowEagle(TokenId root, Candidates& candidates, const EagleShape& shape, int max_nodes) {
  CHECK_GE(shape.width, 1);
  CHECK_GE(shape.depth, 0);
  CHECK_GE(shape.nodes, 1);
  const int nodes = std::min(shape.nodes - 1, max_nodes);
  if (nodes <= 0) return DraftTree(root);
  Pool pool(root);
  const int width = std::min(shape.width, nodes);
  // Nodes at the largest depth have no candidates, so their round finds no child.
  for (int round = 0; round <= shape.depth && pool.Expand(width, candidates); ++round) {
  }
  return pool.TreeOfBest(nodes + 1);
}

}  // namespace bastion
