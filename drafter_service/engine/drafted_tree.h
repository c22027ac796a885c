// DraftedTree: the nodes of one cycle that an autoregressive drafter has computed. Row 0 is the
// root. The keys and values of the rows lie in the drafter's cache, after the context.
// Thread-compatible.
#ifndef BASTION_DRAFTER_SERVICE_ENGINE_DRAFTED_TREE_H_
#define BASTION_DRAFTER_SERVICE_ENGINE_DRAFTED_TREE_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "common/base/ids.h"

namespace bastion::drafter {

class DraftedTree {
 public:
  // The root alone, after `committed` tokens. Forgets all other rows.
  void Begin(Position committed, TokenId root);
  // No tree.
  void Clear() { tokens_.clear(); }
  // True if this is the tree of `root` after `committed` tokens.
  [[nodiscard]] bool Is(Position committed, TokenId root) const {
    return !tokens_.empty() && committed_ == committed && tokens_[0] == root;
  }

  // The row of the node at `path`, the tokens after the root. Adds rows for the nodes that are
  // missing. A node that is in the cache gets another row, because its logits are gone. REQUIRES:
  // the tree has begun.
  [[nodiscard]] int Add(absl::Span<const TokenId> path);
  // Says that all rows so far are in the cache.
  void MarkCached() { cached_ = rows(); }

  [[nodiscard]] int rows() const { return static_cast<int>(tokens_.size()); }
  // Rows whose keys and values are in the cache: the first ones.
  [[nodiscard]] int cached() const { return cached_; }
  [[nodiscard]] int depth(int row) const { return depths_[row]; }
  // The rows that are not in the cache.
  [[nodiscard]] std::vector<TokenId> NewTokens() const {
    return {tokens_.begin() + cached_, tokens_.end()};
  }
  [[nodiscard]] std::vector<int> NewDepths() const {
    return {depths_.begin() + cached_, depths_.end()};
  }
  // [new rows, ceil(rows / 64)] Bit j of a row: row j is the row itself or an ancestor.
  [[nodiscard]] std::vector<uint64_t> NewAncestors() const;

 private:
  [[nodiscard]] int AddRow(int parent, TokenId token);

  Position committed_ = 0;
  int cached_ = 0;
  std::vector<TokenId> tokens_;
  std::vector<int> parents_, depths_;
  absl::flat_hash_map<std::pair<int, TokenId>, int> children_;  // (row, token) -> latest row
};

}  // namespace bastion::drafter

#endif  // BASTION_DRAFTER_SERVICE_ENGINE_DRAFTED_TREE_H_
