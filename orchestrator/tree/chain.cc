#include "orchestrator/tree/chain.h"

#include <algorithm>
#include <cmath>

namespace bastion {

DraftTree GrowChain(TokenId root, const CandidateScores& scores, int length) {
  const int reach = scores.candidates == 0 ? 0 : std::clamp(length, 0, scores.positions);
  DraftTree tree(root);
  tree.Reserve(reach);
  double log_score = 0;
  for (int position = 0; position < reach; ++position) {
    log_score += static_cast<double>(scores.log_score(position, 0));
    if (std::isinf(log_score)) break;
    tree.Add(/*parent=*/position, scores.token(position, 0), static_cast<float>(log_score));
  }
  return tree;
}

}  // namespace bastion
