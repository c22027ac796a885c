// Keeps the nodes with the highest scores.
#ifndef BASTION_ORCHESTRATOR_TREE_KEEP_BEST_H_
#define BASTION_ORCHESTRATOR_TREE_KEEP_BEST_H_

#include <algorithm>
#include <cstddef>
#include <vector>

namespace bastion {

// Sorts the `count` nodes with the highest score_of(node), best first, and drops the others. Of
// equal scores, the lower index is better.
template <typename Index, typename ScoreOf>
void KeepBest(std::ptrdiff_t count, ScoreOf score_of, std::vector<Index>* nodes) {
  const auto end = nodes->begin() + std::min(count, std::ssize(*nodes));
  std::partial_sort(nodes->begin(), end, nodes->end(), [&score_of](Index a, Index b) {
    return score_of(a) != score_of(b) ? score_of(a) > score_of(b) : a < b;
  });
  nodes->erase(end, nodes->end());
}

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_TREE_KEEP_BEST_H_
