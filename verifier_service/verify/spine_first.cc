#include "verifier_service/verify/spine_first.h"

namespace bastion::verifier {

std::optional<SpineFirst> PutSpineFirst(const DraftTree& tree) {
  const int rows = tree.rows();
  // Each node's best child. Ties go to the first child.
  std::vector<NodeIndex> best(rows, kNoNode);
  for (NodeIndex i = 1; i < rows; ++i) {
    NodeIndex& child = best[tree.parent(i)];
    if (child == kNoNode || tree.log_score(i) > tree.log_score(child)) child = i;
  }
  int length = 0;
  bool in_order = true;
  for (NodeIndex at = best[0]; at != kNoNode; at = best[at]) in_order &= at == ++length;
  if (in_order) return std::nullopt;
  std::vector<NodeIndex> row_of(rows, kNoNode);  // Each node's row in the new order.
  SpineFirst result = {DraftTree(tree.token(0)), {0}};
  result.tree.Reserve(rows - 1);
  result.nodes.reserve(rows);
  row_of[0] = 0;
  const auto add = [&](NodeIndex node) {
    row_of[node] =
        result.tree.Add(row_of[tree.parent(node)], tree.token(node), tree.log_score(node));
    result.nodes.push_back(node);
  };
  for (NodeIndex at = best[0]; at != kNoNode; at = best[at]) add(at);
  for (NodeIndex node = 1; node < rows; ++node) {
    if (row_of[node] == kNoNode) add(node);
  }
  return result;
}

}  // namespace bastion::verifier
