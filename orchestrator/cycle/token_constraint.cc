#include "orchestrator/cycle/token_constraint.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/base/thread_time.h"

namespace bastion {
namespace {

// The masks below a root whose mask is known are found for about this long. Nodes that are left
// then are removed, which costs no text.
constexpr absl::Duration kWalkTime = absl::Milliseconds(5);

// Walks through a tree, depth first.
class TreeWalk {
 public:
  TreeWalk(const DraftTree& tree, const absl::flat_hash_set<TokenId>& ends,
           TokenConstraint& constraint, const TokenSet* at_root)
      : tree_(tree),
        ends_(ends),
        constraint_(constraint),
        at_root_(at_root),
        children_(tree.rows()) {
    for (NodeIndex node = 1; node < tree.rows(); ++node) {
      children_[tree.parent(node)].push_back(node);
    }
    mask_of_node_.assign(tree.rows(), kRemoved);
  }

  // Visits the rows that the constraint allows.
  absl::Status Run() { return Visit(0); }

  // Replaces the tree by the visited nodes.
  void Apply(GrownTree* grown) && {
    DraftTree kept(tree_.token(0));
    std::vector<NodeIndex> new_index(tree_.rows());
    std::vector<int> set_of_row = {mask_of_node_[0]};
    for (NodeIndex node = 1; node < tree_.rows(); ++node) {
      if (mask_of_node_[node] == kRemoved) continue;
      new_index[node] =
          kept.Add(new_index[tree_.parent(node)], tree_.token(node), tree_.log_score(node));
      set_of_row.push_back(mask_of_node_[node]);
    }
    grown->tree = std::move(kept);
    grown->masks = {std::move(sets_), std::move(set_of_row)};
  }

 private:
  static constexpr int kRemoved = -2;

  absl::Status Visit(NodeIndex node) {
    mask_of_node_[node] = RowMasks::kAllTokens;
    if (constraint_.complete()) return absl::OkStatus();  // What follows is dropped.
    const bool is_known = node == 0 && at_root_ != nullptr;
    ASSIGN_OR_RETURN(TokenSet allowed, is_known ? *at_root_ : constraint_.Allowed());
    // Rows in the middle of a string often allow the same tokens.
    const auto same = std::find(sets_.begin(), sets_.end(), allowed);
    const auto index = static_cast<int>(same - sets_.begin());
    if (same == sets_.end()) sets_.push_back(std::move(allowed));
    mask_of_node_[node] = index;
    for (const NodeIndex child : children_[node]) {
      if (at_root_ != nullptr && ThreadCpuTime() - began_ > kWalkTime) break;
      const TokenId token = tree_.token(child);
      if (!sets_[index].contains(token)) continue;
      if (ends_.contains(token)) {
        mask_of_node_[child] = RowMasks::kAllTokens;
        continue;
      }
      RETURN_IF_ERROR(constraint_.Push(token));
      const absl::Status below = Visit(child);
      const absl::Status popped = constraint_.Pop(1);
      RETURN_IF_ERROR(below);  // First: a grammar that is too complex cannot go back either.
      RETURN_IF_ERROR(popped);
    }
    return absl::OkStatus();
  }

  const DraftTree& tree_;
  const absl::flat_hash_set<TokenId>& ends_;
  TokenConstraint& constraint_;
  const TokenSet* const at_root_;
  const absl::Duration began_ = ThreadCpuTime();
  std::vector<std::vector<NodeIndex>> children_;
  std::vector<TokenSet> sets_;
  std::vector<int> mask_of_node_;  // An index into sets_, RowMasks::kAllTokens, or kRemoved.
};

// The child of `node` with this token; kNoNode if there is none.
NodeIndex ChildOf(const DraftTree& tree, NodeIndex node, TokenId token) {
  for (NodeIndex child = node + 1; child < tree.rows(); ++child) {
    if (tree.parent(child) == node && tree.token(child) == token) return child;
  }
  return kNoNode;
}

}  // namespace

int LengthInTree(const DraftTree& tree, absl::Span<const TokenId> tokens) {
  NodeIndex at = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    at = ChildOf(tree, at, tokens[i]);
    if (at == kNoNode) return static_cast<int>(i);
  }
  return static_cast<int>(tokens.size());
}

void AddPath(absl::Span<const TokenId> tokens, DraftTree* tree) {
  NodeIndex at = 0;
  for (const TokenId token : tokens) {
    const NodeIndex child = ChildOf(*tree, at, token);
    at = child != kNoNode ? child : tree->Add(at, token, tree->log_score(at));
  }
}

absl::Status ConstrainTree(const absl::flat_hash_set<TokenId>& ends, TokenConstraint& constraint,
                           GrownTree* grown, const TokenSet* at_root) {
  TreeWalk walk(grown->tree, ends, constraint, at_root);
  RETURN_IF_ERROR(walk.Run());
  std::move(walk).Apply(grown);
  return absl::OkStatus();
}

}  // namespace bastion
