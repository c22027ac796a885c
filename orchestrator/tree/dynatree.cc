#include "orchestrator/tree/dynatree.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace bastion {
namespace {

// A tree that grows, and the log path score of each node, which a DraftTree stores as a float.
struct ScoredTree {
  DraftTree tree;
  std::vector<double> scores = {0.0};
};

// Adds the `count` best candidates of `list` as children of `parent`, while there are fewer than
// shape.nodes nodes.
void AddChildren(NodeIndex parent, const CandidateList& list, int count, const DynaTreeShape& shape,
                 ScoredTree* grown) {
  const int most = std::min(count, list.size);
  for (int rank = 0; rank < most && grown->tree.nodes() < shape.nodes; ++rank) {
    const double score = grown->scores[parent] + static_cast<double>(list.log_scores[rank]);
    if (std::isinf(score)) return;
    if (!shape.keeps_leaves && std::exp(score) < shape.prune) return;
    grown->tree.Add(parent, list.tokens[rank], static_cast<float>(score));
    grown->scores.push_back(score);
  }
}

bool MayExpand(const DynaTreeShape& shape, int depth, double probability) {
  return probability >= shape.prune && depth < shape.max_depth && probability >= shape.stop &&
         (depth < shape.base_depth || probability >= shape.deep);
}

int Branches(const DynaTreeShape& shape, double confidence) {
  if (confidence >= shape.high) return shape.min_branches;
  return confidence < shape.low ? shape.max_branches : shape.mid_branches;
}

}  // namespace

DynaTreeShape FixedTreeShape(int depth, int branches, int nodes) {
  return {.min_branches = branches,
          .mid_branches = branches,
          .max_branches = branches,
          .base_depth = depth,
          .max_depth = depth,
          .stop = 0,
          .deep = 0,
          .prune = 0,
          .nodes = nodes};
}

DraftTree GrowDynaTree(TokenId root, Candidates& candidates, const DynaTreeShape& shape) {
  ScoredTree grown = {DraftTree(root)};
  const DraftTree& tree = grown.tree;
  AddChildren(0, candidates.After(tree, 0), 1, shape, &grown);
  for (NodeIndex u = 1; u < tree.rows() && tree.nodes() < shape.nodes; ++u) {
    if (!MayExpand(shape, tree.depth(u) - 1, std::exp(grown.scores[u]))) continue;
    const CandidateList list = candidates.After(tree, u);
    if (list.size == 0) continue;
    const int branches = Branches(shape, std::exp(static_cast<double>(list.log_scores[0])));
    AddChildren(u, list, branches, shape, &grown);
  }
  return std::move(grown.tree);
}

}  // namespace bastion
