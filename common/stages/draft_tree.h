// DraftTree: the tokens proposed for one verify forward, as plain data.
//
// Invariants (Validate checks them; a service that receives a tree from a peer must call it):
//   - node 0 is the root: the bonus token, not yet run through the target; its parent is kNoNode;
//   - parents come before children: parent[i] < i for i > 0;
//   - siblings have different tokens (otherwise acceptance would be ambiguous);
//   - path scores never increase along a path. The path score ρ of a node is the product of the
//     predicted probabilities on its path from the root.
// Nodes are stored in the order in which the tree policy added them, so every prefix of the arrays
// is a tree. Thread-compatible.
#ifndef BASTION_COMMON_STAGES_DRAFT_TREE_H_
#define BASTION_COMMON_STAGES_DRAFT_TREE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "common/base/ids.h"

namespace bastion {

class DraftTree {
 public:
  // A tree with only the root: verifying it is a plain decode step.
  explicit DraftTree(TokenId root);

  // Adds a child of `parent` and returns its index. `log_score` is log ρ.
  // REQUIRES: 0 <= parent < rows().
  NodeIndex Add(NodeIndex parent, TokenId token, float log_score);

  // Allocates room for `nodes` nodes, so that adding them does not allocate.
  void Reserve(int nodes);

  // Keeps the root and the first `nodes` nodes. REQUIRES: 0 <= nodes <= this->nodes().
  void Truncate(int nodes);

  [[nodiscard]] int rows() const { return static_cast<int>(tokens_.size()); }
  // N in the papers: rows without the root.
  [[nodiscard]] int nodes() const { return rows() - 1; }
  [[nodiscard]] TokenId token(NodeIndex i) const { return tokens_[i]; }
  [[nodiscard]] NodeIndex parent(NodeIndex i) const { return parents_[i]; }
  [[nodiscard]] int depth(NodeIndex i) const { return depths_[i]; }
  [[nodiscard]] float log_score(NodeIndex i) const { return log_scores_[i]; }
  [[nodiscard]] const std::vector<TokenId>& tokens() const { return tokens_; }
  [[nodiscard]] const std::vector<NodeIndex>& parents() const { return parents_; }

  // True if every node is the child of the node before it.
  [[nodiscard]] bool IsChain() const;

  // Ancestor-or-self bits, row by row: [rows, words] with words = ceil(rows / 64). Bit j of row i
  // is set when j is i or an ancestor of i.
  [[nodiscard]] std::vector<uint64_t> AncestorBits() const;

  // The committed length that the path scores predict: Â = Σ ρ(i), root included (BASTION, eq. 3).
  [[nodiscard]] double ExpectedCommittedLength() const;

  // INVALID_ARGUMENT naming the first violated invariant. Tokens must lie in [0, vocabulary).
  [[nodiscard]] absl::Status Validate(int vocabulary) const;

  friend bool operator==(const DraftTree&, const DraftTree&) = default;

 private:
  std::vector<TokenId> tokens_;
  std::vector<NodeIndex> parents_;
  std::vector<int> depths_;
  std::vector<float> log_scores_;
};

}  // namespace bastion

#endif  // BASTION_COMMON_STAGES_DRAFT_TREE_H_
