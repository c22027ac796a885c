#include "orchestrator/tree/chain.h"

#include <algorithm>
#include <cmath>

namespace bastion {

DraftTree GrowChain(TokenId root, Candidates& candidates, int length,
                    absl::Span<const double> min_scores) {
  const int max_nodes = std::clamp(length, 0, candidates.max_depth());
  DraftTree tree(root);
  tree.Reserve(max_nodes);
  double log_score = 0;
  for (NodeIndex tip = 0; tip < max_nodes; ++tip) {
    const CandidateList list = candidates.After(tree, tip);
    if (list.size == 0) break;
    log_score += static_cast<double>(list.log_scores[0]);
    if (std::isinf(log_score)) break;
    const auto nodes = static_cast<size_t>(tip);
    if (nodes < min_scores.size() && std::exp(log_score) < min_scores[nodes]) break;
    tree.Add(tip, list.tokens[0], static_cast<float>(log_score));
  }
  return tree;
}

}  // namespace bastion
