#include "orchestrator/tree/best_first.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/check.h"

namespace bastion {

BestFirst::BestFirst(Candidates& candidates, int expected_nodes, DraftTree* tree)
    : candidates_(candidates), tree_(tree) {
  CHECK_EQ(tree->nodes(), 0);
  tree->Reserve(expected_nodes);
  // Each added node removes one candidate from the heap and offers at most two.
  heap_.reserve(static_cast<size_t>(expected_nodes) + 2);
}

void BestFirst::ProposeChild() {
  if (unoffered_ == kNoNode) return;
  const NodeIndex parent = std::exchange(unoffered_, kNoNode);
  Offer({.parent_log_score = unoffered_score_,
         .parent = parent,
         .list = candidates_.After(*tree_, parent),
         .rank = 0});
}

double BestFirst::PeekScore() { return exhausted() ? 0.0 : std::exp(heap_.front().log_score); }

double BestFirst::AddNext() {
  CHECK(!exhausted());
  std::pop_heap(heap_.begin(), heap_.end(), Worse());
  const Candidate taken = heap_.back();
  heap_.pop_back();
  const NodeIndex node =
      tree_->Add(taken.parent, taken.list.tokens[taken.rank], static_cast<float>(taken.log_score));
  Candidate sibling = taken;
  ++sibling.rank;
  Offer(sibling);
  unoffered_ = node;
  unoffered_score_ = taken.log_score;
  return std::exp(taken.log_score);
}

void BestFirst::Offer(Candidate next) {
  if (next.rank >= next.list.size) return;
  // DDTree updates the previous sibling's score by "− log q^(r) + log q^(r+1)". The sum below gives
  // the same score, but rounding errors do not accumulate from sibling to sibling.
  next.log_score = next.parent_log_score + static_cast<double>(next.list.log_scores[next.rank]);
  if (std::isinf(next.log_score)) return;
  next.order = offered_++;
  heap_.push_back(next);
  std::push_heap(heap_.begin(), heap_.end(), Worse());
}

DraftTree GrowBestFirst(TokenId root, Candidates& candidates, int budget) {
  DraftTree tree(root);
  BestFirst best_first(candidates, std::max(budget, 0), &tree);
  while (tree.nodes() < budget && !best_first.exhausted()) best_first.AddNext();
  return tree;
}

}  // namespace bastion
