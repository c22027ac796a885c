// DraftedTree: the nodes of one cycle that an autoregressive drafter has expanded. Node 0 is the
// root. A node has P rows, which predict the P tokens after it on its spine (node_model.h): the
// row of place k is valid if the tokens at the places before are the most probable ones. The keys
// and values of the rows lie in the drafter's cache, after the context, node by node.
// Thread-compatible.
#ifndef BASTION_DRAFTER_SERVICE_ENGINE_DRAFTED_TREE_H_
#define BASTION_DRAFTER_SERVICE_ENGINE_DRAFTED_TREE_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "common/base/ids.h"

namespace bastion::drafter {

class DraftedTree {
 public:
  // The root alone, after `committed` tokens. Forgets all other nodes.
  void Begin(Position committed, TokenId root, int positions);
  // No tree.
  void Clear() { nodes_.clear(); }
  // True if this is the tree of `root` after `committed` tokens.
  [[nodiscard]] bool Is(Position committed, TokenId root) const {
    return !nodes_.empty() && committed_ == committed && nodes_[0].token == root;
  }

  // The node at `path`, the tokens after the root. It starts from the nearest node above it that is
  // in the cache and predicts it. If there is none, adds the node before it, too. A node that is in
  // the cache is added again, because its logits are gone. Nullopt if this depends on tokens that a
  // node not yet in the cache will predict. REQUIRES: the tree has begun.
  [[nodiscard]] std::optional<int> Add(absl::Span<const TokenId> path);
  // Says that the nodes before `end` are in the cache.
  void MarkCached(int end) { cached_ = end; }
  // The most probable tokens of the P places after a node. Only needed for P > 1.
  void SetSpine(int node, std::vector<TokenId> tokens) { nodes_[node].spine = std::move(tokens); }

  [[nodiscard]] int nodes() const { return static_cast<int>(nodes_.size()); }
  [[nodiscard]] int rows() const { return nodes() * positions_; }
  // Nodes whose keys and values are in the cache: the first ones.
  [[nodiscard]] int cached() const { return cached_; }
  // Tokens from the root to a node.
  [[nodiscard]] int depth(int node) const { return nodes_[node].depth; }
  // The row, among all rows of the tree, that predicted the node. -1 for the root.
  [[nodiscard]] int predictor(int node) const {
    return nodes_[node].parent * positions_ + nodes_[node].place;
  }
  // The end of the first new nodes whose parents are in the cache.
  [[nodiscard]] int EndOfLevel() const;

  // The rows of the nodes [cached(), end), new ones, and the rows that they see.
  [[nodiscard]] std::vector<TokenId> NewTokens(int end) const;
  // Places after the root's first row: with `by_depth`, the rows of a node begin at its depth.
  [[nodiscard]] std::vector<int> NewPlaces(int end, bool by_depth) const;
  // [new rows, ceil(rows before `end` / 64)] Bit j of a row: it sees row j, itself or one before it
  // on its path.
  [[nodiscard]] std::vector<uint64_t> NewAncestors(int end) const;

 private:
  struct Node {
    int parent = -1;  // The node whose row `place` predicted this one.
    int place = 0;
    TokenId token = 0;
    int depth = 0;
    std::vector<TokenId> spine = {};
  };
  static constexpr int kNone = -1;

  [[nodiscard]] int AddNode(int parent, int place, absl::Span<const TokenId> path);
  // The latest nodes at the beginnings of `path`, or kNone: first that of the root, last that at
  // `path` itself.
  [[nodiscard]] std::vector<int> NodesOn(absl::Span<const TokenId> path) const;
  // Whether `node` predicts what follows the tokens `below` it.
  [[nodiscard]] bool Reaches(int node, absl::Span<const TokenId> below) const;

  Position committed_ = 0;
  int positions_ = 1;  // P
  int cached_ = 0;
  std::vector<Node> nodes_;
  // The trie of all paths. Entry 0 is the root.
  absl::flat_hash_map<std::pair<int, TokenId>, int> children_;  // (entry, token) -> entry
  std::vector<int> entries_;                                    // The latest node, or kNone.
};

}  // namespace bastion::drafter

#endif  // BASTION_DRAFTER_SERVICE_ENGINE_DRAFTED_TREE_H_
