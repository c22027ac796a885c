#include "orchestrator/tree/specblock.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/base/check.h"
#include "orchestrator/tree/keep_best.h"

namespace bastion {
namespace {

constexpr int kBucketWithoutRankHead = 1;

int BucketOf(const CandidateList& list) {
  return list.bucket == kNoBucket ? kBucketWithoutRankHead : list.bucket;
}

// The width of a slot by its bucket alone.
int MappedWidth(const SpecBlockShape& shape, const CandidateList& list) {
  return shape.uniform > 0 ? shape.uniform : shape.map[BucketOf(list)];
}

// The width of a slot of the released algorithm. `first`: slot 1 of the root's block.
int ReleasedWidth(const SpecBlockShape& shape, const CandidateList& list, bool first) {
  if (shape.uniform > 0) return shape.uniform;
  const double confidence = std::exp(static_cast<double>(list.log_scores[0]));
  if (first) {
    if (confidence >= 0.9) return 3;
    if (confidence >= 0.8) return 5;
    return confidence >= 0.6 ? 8 : SpecBlockShape::kRootWidth;
  }
  const int width = MappedWidth(shape, list);
  if (confidence >= 0.95) return std::min(2, width);
  return confidence >= 0.85 ? std::min(3, width) : width;
}

bool IsPossible(const CandidateList& list, int rank) {
  return rank < list.size && !std::isinf(list.log_scores[rank]);
}

// Keeps the `count` best nodes of those that can have children, best first.
void KeepStarts(const Candidates& candidates, const DraftTree& tree,
                const std::vector<double>& scores, int count, std::vector<NodeIndex>* nodes) {
  std::erase_if(*nodes, [&](NodeIndex node) { return tree.depth(node) >= candidates.max_depth(); });
  KeepBest(
      count, [&scores](NodeIndex node) { return scores[node]; }, nodes);
}

// The nodes that the released algorithm has found, the root first.
class BlockPool {
 public:
  BlockPool(TokenId root, Candidates& candidates, const SpecBlockShape& shape)
      : candidates_(candidates), shape_(shape), nodes_(root) {}

  void Grow() {
    std::vector<NodeIndex> starts = {0};
    for (int block = 0; block < shape_.blocks && !starts.empty(); ++block) {
      next_.clear();
      for (const NodeIndex start : starts) AddBlock(start);
      UpdateScores();
      starts = NextStarts(/*all=*/block == 0);
    }
  }

  // The tree of the best nodes.
  [[nodiscard]] DraftTree BestNodes() const {
    std::vector<NodeIndex> best(nodes_.nodes());
    for (size_t i = 0; i < best.size(); ++i) best[i] = NodeIndex::Of(i) + 1;
    KeepBest(
        shape_.nodes, [this](NodeIndex node) { return scores_[node]; }, &best);
    DraftTree tree(nodes_.token(0));
    tree.Reserve(static_cast<int>(best.size()));
    std::vector<NodeIndex> placed(nodes_.rows(), 0);
    for (const NodeIndex node : best) {
      placed[node] = tree.Add(placed[nodes_.parent(node)], nodes_.token(node),
                              static_cast<float>(scores_[node]));
    }
    return tree;
  }

 private:
  struct Slot {
    NodeIndex parent;
    CandidateList list;
    int width;
  };

  // Adds the block of `start`, if it is known, and the nodes that may start blocks after it.
  void AddBlock(NodeIndex start) {
    started_[start] = true;
    slots_.clear();
    NodeIndex tip = start;
    bool gave_up = false;
    for (;;) {
      const CandidateList list = candidates_.InBlock(nodes_, start, tip);
      if (!IsPossible(list, 0)) break;
      const bool first = start == 0 && slots_.empty();
      const int width = gave_up ? 0 : ReleasedWidth(shape_, list, first);
      gave_up = width == 0;
      slots_.push_back({tip, list, width});
      tip = Add(tip, list, 0);
      if (width > 1) next_.push_back(tip);
    }
    if (start == 0) positions_ = static_cast<int>(slots_.size());
    if (!slots_.empty() && slots_.back().width == 1) next_.push_back(tip);
    for (const Slot& slot : slots_) {
      for (int rank = 1; rank < slot.width && IsPossible(slot.list, rank); ++rank) {
        next_.push_back(Add(slot.parent, slot.list, rank));
      }
    }
  }

  // Adds a child of `parent`, or raises its log-probability.
  NodeIndex Add(NodeIndex parent, const CandidateList& list, int rank) {
    const auto log_prob = static_cast<double>(list.log_scores[rank]);
    const auto [child, added] =
        children_.try_emplace({parent, list.tokens[rank]}, NodeIndex::Of(nodes_.rows()));
    if (added) {
      nodes_.Add(parent, list.tokens[rank], 0);
      log_probs_.push_back(log_prob);
      started_.push_back(false);
    } else {
      log_probs_[child->second] = std::max(log_probs_[child->second], log_prob);
    }
    return child->second;
  }

  void UpdateScores() {
    scores_.resize(nodes_.rows());
    for (NodeIndex node = 1; node < nodes_.rows(); ++node) {
      scores_[node] = scores_[nodes_.parent(node)] + log_probs_[node];
    }
  }

  std::vector<NodeIndex> NextStarts(bool all) {
    std::sort(next_.begin(), next_.end());
    next_.erase(std::unique(next_.begin(), next_.end()), next_.end());
    std::erase_if(next_, [this](NodeIndex node) { return started_[node]; });
    const int remaining = shape_.nodes - nodes_.nodes();
    const int later = std::min(shape_.starts, std::max(1, remaining / std::max(1, positions_)));
    KeepStarts(candidates_, nodes_, scores_, all ? nodes_.rows() : later, &next_);
    return std::move(next_);
  }

  Candidates& candidates_;
  const SpecBlockShape& shape_;
  DraftTree nodes_;  // Without scores.
  absl::flat_hash_map<std::pair<NodeIndex, TokenId>, NodeIndex> children_;
  // By node. The log-probability is that of the node's token.
  std::vector<double> log_probs_ = {0}, scores_ = {0};
  std::vector<bool> started_ = {false};
  int positions_ = 0;            // K, of the root's block.
  std::vector<NodeIndex> next_;  // The nodes that this round adds and that may start blocks.
  std::vector<Slot> slots_;      // Reused between blocks.
};

// The literal algorithm.
class LiteralTree {
 public:
  LiteralTree(TokenId root, Candidates& candidates, const SpecBlockShape& shape)
      : candidates_(candidates), shape_(shape), tree_(root) {}

  DraftTree Grow() {
    std::vector<NodeIndex> starts = {0};
    for (int block = 0; block < shape_.blocks; ++block) {
      next_.clear();
      for (size_t i = 0; i < starts.size() && !full(); ++i) AddBlock(starts[i]);
      if (full() || next_.empty()) break;
      KeepStarts(candidates_, tree_, scores_, shape_.starts, &next_);
      std::swap(starts, next_);
    }
    return std::move(tree_);
  }

 private:
  [[nodiscard]] bool full() const { return tree_.nodes() >= shape_.nodes; }

  void AddBlock(NodeIndex start) {
    NodeIndex parent = start;
    for (;;) {
      const CandidateList list = candidates_.InBlock(tree_, start, parent);
      if (list.size == 0) break;
      const int width = MappedWidth(shape_, list);
      const int bucket = BucketOf(list);
      const bool siblings_start =
          shape_.any_bucket || shape_.uniform > 0 || bucket == 1 || bucket == 2;
      const auto first = NodeIndex::Of(tree_.rows());
      for (int rank = 0; rank < width && IsPossible(list, rank); ++rank) {
        if (full()) return;
        const double score = scores_[parent] + static_cast<double>(list.log_scores[rank]);
        const NodeIndex child = tree_.Add(parent, list.tokens[rank], static_cast<float>(score));
        scores_.push_back(score);
        if (rank > 0 && siblings_start) next_.push_back(child);
      }
      if (first == tree_.rows()) return;  // It was cut.
      parent = first;
    }
    if (parent != start) next_.push_back(parent);
  }

  Candidates& candidates_;
  const SpecBlockShape& shape_;
  DraftTree tree_;
  std::vector<double> scores_ = {0};  // Path scores, as logarithms.
  std::vector<NodeIndex> next_;       // The nodes that may start blocks in the next round.
};

}  // namespace

DraftTree GrowSpecBlock(TokenId root, Candidates& candidates, const SpecBlockShape& shape) {
  CHECK_GE(shape.nodes, 1);
  CHECK_GE(shape.blocks, 1);
  CHECK_GE(shape.starts, 1);
  if (shape.literal) return LiteralTree(root, candidates, shape).Grow();
  BlockPool pool(root, candidates, shape);
  pool.Grow();
  return pool.BestNodes();
}

}  // namespace bastion
