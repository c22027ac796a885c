// CycleDraft: what the drafter predicted in one cycle. It holds the marginals of every node that
// the drafter has expanded, each identified by its path: the tokens from the root, excluding the
// root.
//
// There are three kinds of drafters:
//   - A block drafter expands the root alone and predicts P positions. All nodes of a depth share
//     the distribution of that position, or all that have the same token if there are pair scores.
//   - An autoregressive drafter expands every node and predicts one position.
//   - A SpecBlock drafter expands every node and predicts a block of P positions. Position 0 is for
//     the expanded node. Position k > 0 is for one node only: the descendant whose tokens at the
//     positions before k have rank 1. These descendants are the spine of the block. Other
//     descendants must be expanded themselves.
//
// The last two expand nodes in several rounds, so that a tree policy learns the children of a node
// only after it has asked for them. CycleDraft records what was asked for. Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_TREE_CYCLE_DRAFT_H_
#define BASTION_ORCHESTRATOR_TREE_CYCLE_DRAFT_H_

#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/stages/draft_tree.h"
#include "common/stages/marginals.h"

namespace bastion {

// The tokens from the root to a node, excluding the root.
using TreePath = std::vector<TokenId>;

[[nodiscard]] TreePath PathOf(const DraftTree& tree, NodeIndex node);

class CycleDraft {
 public:
  static constexpr int kNoPairRow = -1;

  // One distribution of the draft: a position of some marginals, and a row of their pair scores.
  struct Place {
    const Marginals* marginals = nullptr;  // Null: the drafter has not predicted it.
    int position = 0;                      // In `marginals`.
    int index = 0;  // Identifies the position in this draft, in [0, places()).
    // The rank of the token before among the candidates of the position before it
    // (Marginals::pair_row). 0 at position 0. kNoPairRow: there are no pair scores, or the token is
    // not among these candidates.
    int pair_row = kNoPairRow;

    [[nodiscard]] bool known() const { return marginals != nullptr; }
  };

  CycleDraft() = default;
  // The root alone, with `marginals`.
  explicit CycleDraft(Marginals marginals) { Add({}, std::move(marginals)); }

  // Starts the next cycle.
  void Clear();

  // True: the drafter can expand every node, not just the root (DrafterInfo::expands_nodes).
  [[nodiscard]] bool expands_nodes() const { return expands_nodes_; }
  void set_expands_nodes(bool expands_nodes) { expands_nodes_ = expands_nodes; }

  // Adds the marginals of the node at `path`. Empty marginals are ignored.
  void Add(absl::Span<const TokenId> path, Marginals marginals);

  // True if the drafter has predicted nothing.
  [[nodiscard]] bool empty() const { return places_ == 0; }
  [[nodiscard]] int places() const { return places_; }
  // P: the positions that one expansion predicts. 0 without a draft.
  [[nodiscard]] int positions() const { return root_positions(); }
  // A tree grown from this draft is at most this deep, whatever the drafter predicts further.
  [[nodiscard]] int max_depth() const {
    return expands_nodes_ ? std::numeric_limits<int>::max() : root_positions();
  }

  // The distribution of the children of `node`, from the nearest expanded ancestor whose block has
  // one for it, `node` included.
  [[nodiscard]] Place Find(const DraftTree& tree, NodeIndex node) const;
  [[nodiscard]] Place Find(absl::Span<const TokenId> path) const;
  // The same. If there is none, but the drafter can expand `node`, records its path as missing.
  [[nodiscard]] Place After(const DraftTree& tree, NodeIndex node);
  // The distribution of the children of `node` in the block of `start` alone. If `start` is not
  // expanded, but the drafter can expand it, records its path as missing. A block drafter has one
  // block, so `start` does not matter. REQUIRES: `start` is `node` or an ancestor of it.
  [[nodiscard]] Place InBlock(const DraftTree& tree, NodeIndex start, NodeIndex node);

  // The paths that After and InBlock have recorded as missing since the last call, each once.
  [[nodiscard]] std::vector<TreePath> TakeMissing();

 private:
  // A node of the trie of paths. Its marginals are empty unless it was expanded.
  struct Entry {
    Marginals marginals = {};
    int first_place = 0;
  };

  // The place at `position` of `marginals` after the token `before`.
  [[nodiscard]] static Place PlaceAt(const Marginals& marginals, int position, int index,
                                     TokenId before);
  // The place at the end of `path` in the block of `expanded`, whose path is the first `above`
  // tokens of `path`. Unknown if the block does not reach it.
  [[nodiscard]] static Place PlaceIn(const Entry& expanded, absl::Span<const TokenId> path,
                                     int above);
  [[nodiscard]] int root_positions() const { return root_.marginals.positions; }
  // Entry 0 is the root.
  [[nodiscard]] const Entry& entry(int index) const {
    return index == 0 ? root_ : *others_[index - 1];
  }
  [[nodiscard]] Entry& entry(int index) { return index == 0 ? root_ : *others_[index - 1]; }

  Entry root_;
  std::vector<std::unique_ptr<Entry>> others_;
  absl::flat_hash_map<std::pair<int, TokenId>, int> children_;  // (entry, token) -> entry
  int places_ = 0;
  bool expands_nodes_ = false;
  std::vector<TreePath> missing_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_TREE_CYCLE_DRAFT_H_
