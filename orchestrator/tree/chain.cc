#include "orchestrator/tree/chain.h"

#include <algorithm>
#include <cmath>

namespace bastion {

DraftTree GrowChain(TokenId root, const CandidateRows& rows, int length,
                    absl::Span<const double> least_scores) {
  const int reach = std::clamp(length, 0, rows.positions());
  DraftTree tree(root);
  tree.Reserve(reach);
  double log_score = 0;
  for (NodeIndex tip = 0; tip < reach; ++tip) {
    const CandidateRow row = rows.After(tree, tip);
    if (row.size == 0) break;
    log_score += static_cast<double>(row.log_scores[0]);
    if (std::isinf(log_score)) break;
    const auto nodes = static_cast<size_t>(tip);
    if (nodes < least_scores.size() && std::exp(log_score) < least_scores[nodes]) break;
    tree.Add(tip, row.tokens[0], static_cast<float>(log_score));
  }
  return tree;
}

}  // namespace bastion
