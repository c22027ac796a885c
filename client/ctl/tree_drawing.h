// Draws draft trees for a terminal. Token text is escaped, so no token can control the terminal.
// Accepts any tree that a server sends: a parent that does not come before its node counts as the
// root. Thread-safe: no state.
#ifndef BASTION_CLIENT_CTL_TREE_DRAWING_H_
#define BASTION_CLIENT_CTL_TREE_DRAWING_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "bastion/v1/generation.pb.h"

namespace bastion {

struct TreeStyle {
  size_t max_nodes = 24;  // Nodes to draw. Accepted nodes are drawn in any case.
  bool color = false;     // Use the colors of an ANSI terminal.
};

// The text of a token on one line (see VisibleText), or "token 17" if it has no text.
[[nodiscard]] std::string TokenLabel(absl::string_view text, int32_t token_id);

// "draft", "table", "request" or "learned"; "unknown" for other values.
[[nodiscard]] const char* SourceName(v1::NodeSource source);

// The path probability of a node, from 0 to 1. 0 if the server sent no number.
[[nodiscard]] double PathProbability(const v1::VerifiedTree::Node& node);

// The index in tree.nodes() of the parent of node `index`. -1: the root.
[[nodiscard]] int ParentOf(const v1::VerifiedTree& tree, int index);

// Indices in tree.nodes() of the nodes to show, in ascending order: the accepted nodes, then the
// most probable ones, until there are `max_nodes`. Contains the parent of each of its nodes.
[[nodiscard]] std::vector<int> NodesToShow(const v1::VerifiedTree& tree, size_t max_nodes);

// A line per node: a mark, path probability in %, source, and the token at its place in the tree.
// The accepted path has the mark "✓" and heavy lines. It ends in the target's own token, which has
// the mark "+". A last line counts the nodes that are left out.
[[nodiscard]] std::string DrawTree(const v1::VerifiedTree& tree, const TreeStyle& style);

}  // namespace bastion

#endif  // BASTION_CLIENT_CTL_TREE_DRAWING_H_
