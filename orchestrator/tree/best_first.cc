#include "orchestrator/tree/best_first.h"

#include <algorithm>
#include <cmath>

#include "common/base/check.h"

namespace bastion {

BestFirst::BestFirst(const CandidateRows& rows, int expected_nodes, DraftTree* tree)
    : rows_(rows), tree_(tree) {
  CHECK_EQ(tree->nodes(), 0);
  tree->Reserve(expected_nodes);
  // Every node takes one candidate out and puts at most two in.
  heap_.reserve(static_cast<size_t>(expected_nodes) + 2);
  Offer({.parent_log_score = 0.0, .parent = 0, .row = rows.After(*tree, 0), .rank = 0});
}

double BestFirst::Peek() const { return exhausted() ? 0.0 : std::exp(heap_.front().log_score); }

double BestFirst::Next() {
  CHECK(!exhausted());
  std::pop_heap(heap_.begin(), heap_.end(), Worse());
  const Candidate taken = heap_.back();
  heap_.pop_back();
  const NodeIndex node =
      tree_->Add(taken.parent, taken.row.tokens[taken.rank], static_cast<float>(taken.log_score));
  Candidate sibling = taken;
  ++sibling.rank;
  Offer(sibling);
  Offer({.parent_log_score = taken.log_score,
         .parent = node,
         .row = rows_.After(*tree_, node),
         .rank = 0});
  return std::exp(taken.log_score);
}

void BestFirst::Offer(Candidate next) {
  if (next.rank >= next.row.size) return;
  // Parent plus own term instead of DDTree's "− log q^(r) + log q^(r+1)": the same number without
  // the rounding that a row of siblings would collect.
  next.log_score = next.parent_log_score + static_cast<double>(next.row.log_scores[next.rank]);
  if (std::isinf(next.log_score)) return;
  next.order = offered_++;
  heap_.push_back(next);
  std::push_heap(heap_.begin(), heap_.end(), Worse());
}

DraftTree GrowBestFirst(TokenId root, const CandidateRows& rows, int budget) {
  DraftTree tree(root);
  BestFirst best_first(rows, std::max(budget, 0), &tree);
  while (tree.nodes() < budget && !best_first.exhausted()) best_first.Next();
  return tree;
}

}  // namespace bastion
