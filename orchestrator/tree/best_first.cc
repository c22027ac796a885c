#include "orchestrator/tree/best_first.h"

#include <algorithm>
#include <cmath>

#include "common/base/check.h"

namespace bastion {

BestFirst::BestFirst(const CandidateScores& scores, int expected_nodes, DraftTree* tree)
    : scores_(scores), tree_(tree) {
  CHECK_EQ(tree->nodes(), 0);
  tree->Reserve(expected_nodes);
  // Every node takes one candidate out and puts at most two in.
  heap_.reserve(static_cast<size_t>(expected_nodes) + 2);
  Offer(/*parent=*/0, /*parent_log_score=*/0.0, /*position=*/0, /*rank=*/0);
}

double BestFirst::Peek() const { return exhausted() ? 0.0 : std::exp(heap_.front().log_score); }

double BestFirst::Next() {
  CHECK(!exhausted());
  std::pop_heap(heap_.begin(), heap_.end(), Worse());
  const Candidate taken = heap_.back();
  heap_.pop_back();
  const NodeIndex node = tree_->Add(taken.parent, scores_.token(taken.position, taken.rank),
                                    static_cast<float>(taken.log_score));
  Offer(taken.parent, taken.parent_log_score, taken.position, taken.rank + 1);
  Offer(node, taken.log_score, taken.position + 1, /*rank=*/0);
  return std::exp(taken.log_score);
}

void BestFirst::Offer(NodeIndex parent, double parent_log_score, int position, int rank) {
  if (position >= scores_.positions || rank >= scores_.candidates) return;
  // Parent plus own term instead of DDTree's "− log q^(r) + log q^(r+1)": the same number without
  // the rounding that a row of siblings would collect.
  const double log_score =
      parent_log_score + static_cast<double>(scores_.log_score(position, rank));
  if (std::isinf(log_score)) return;
  heap_.push_back({log_score, parent_log_score, offered_++, parent, position, rank});
  std::push_heap(heap_.begin(), heap_.end(), Worse());
}

DraftTree GrowBestFirst(TokenId root, const CandidateScores& scores, int budget) {
  DraftTree tree(root);
  BestFirst best_first(scores, std::max(budget, 0), &tree);
  while (tree.nodes() < budget && !best_first.exhausted()) best_first.Next();
  return tree;
}

}  // namespace bastion
