#include "client/ctl/tree_drawing.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/ctl/printable_text.h"

namespace bastion {
namespace {

constexpr size_t kLabelCharacters = 40;
constexpr char kAcceptedColor[] = "\x1b[32m";
constexpr char kRejectedColor[] = "\x1b[2m";
constexpr char kColorEnd[] = "\x1b[0m";
// Where the tree starts: after the mark, the probability and the source.
constexpr char kRootIndent[] = "                        ";

constexpr int kRoot = -1;
constexpr int kTarget = -2;  // The line of the target's own token.

class TreeDrawing {
 public:
  TreeDrawing(const v1::VerifiedTree& tree, const TreeStyle& style);

  std::string Draw();

 private:
  // The lines below a node, in order: nodes, or kTarget.
  using Children = std::vector<int>;

  struct Line {
    int node;
    std::string indent;     // The text before the connector.
    const char* connector;  // Connects the line with the one of its parent.
    std::string below;      // Indent of the node's children.
  };

  bool IsOnPath(int node) const { return node == kTarget || tree_.nodes(node).accepted(); }
  const Children& ChildrenOf(int node) const { return children_[node + 1]; }
  // The lines of the children of a node. Lines of the path are heavy.
  std::vector<Line> LinesBelow(int node, const std::string& indent) const;
  std::string Text(const Line& line) const;

  const v1::VerifiedTree& tree_;
  const TreeStyle style_;
  std::vector<int> shown_;
  std::vector<Children> children_;  // Element i is for node i - 1; the first is for the root.
};

TreeDrawing::TreeDrawing(const v1::VerifiedTree& tree, const TreeStyle& style)
    : tree_(tree),
      style_(style),
      shown_(NodesToShow(tree, style.max_nodes)),
      children_(tree.nodes_size() + 1) {
  int last_accepted = kRoot;
  for (const int node : shown_) {
    children_[ParentOf(tree, node) + 1].push_back(node);
    if (tree.nodes(node).accepted()) last_accepted = node;
  }
  for (Children& children : children_) {
    std::stable_sort(children.begin(), children.end(), [&](int a, int b) {
      return PathProbability(tree.nodes(a)) > PathProbability(tree.nodes(b));
    });
  }
  Children& last = children_[last_accepted + 1];
  last.insert(last.begin(), kTarget);
}

std::vector<TreeDrawing::Line> TreeDrawing::LinesBelow(int node, const std::string& indent) const {
  const Children& children = ChildrenOf(node);
  const auto path =
      std::find_if(children.begin(), children.end(), [this](int child) { return IsOnPath(child); });
  const bool has_path = path != children.end();
  std::vector<Line> lines;
  for (auto child = children.begin(); child != children.end(); ++child) {
    const bool is_last = child + 1 == children.end();
    const char* connector = is_last ? "└─ " : "├─ ";
    const char* below = is_last ? "  " : "│ ";
    if (has_path && child == path) connector = is_last ? "┗━ " : "┡━ ";
    if (has_path && child < path) {
      connector = "┠─ ";
      below = "┃ ";
    }
    lines.push_back({*child, indent, connector, indent + below});
  }
  return lines;
}

std::string TreeDrawing::Text(const Line& line) const {
  const bool on_path = IsOnPath(line.node);
  const char* color = style_.color ? (on_path ? kAcceptedColor : kRejectedColor) : "";
  std::string facts, label;
  if (line.node == kTarget) {
    facts = "  +           target    ";
    label = TokenLabel(tree_.next_text(), tree_.next_token_id());
  } else {
    const v1::VerifiedTree::Node& node = tree_.nodes(line.node);
    facts = absl::StrFormat("  %s %6.1f %%  %-8s  ", node.accepted() ? "✓" : " ",
                            100 * PathProbability(node), SourceName(node.source()));
    label = TokenLabel(node.text(), node.token_id());
  }
  return absl::StrCat(color, facts, line.indent, line.connector, Shortened(label, kLabelCharacters),
                      style_.color ? kColorEnd : "", "\n");
}

std::string TreeDrawing::Draw() {
  std::string out = absl::StrCat(
      kRootIndent,
      Shortened(TokenLabel(tree_.root_text(), tree_.root_token_id()), kLabelCharacters), "\n");
  // The lines that are still to draw; the last one is the next.
  std::vector<Line> stack = LinesBelow(kRoot, "");
  std::reverse(stack.begin(), stack.end());
  while (!stack.empty()) {
    const Line line = std::move(stack.back());
    stack.pop_back();
    out += Text(line);
    if (line.node == kTarget) continue;
    std::vector<Line> below = LinesBelow(line.node, line.below);
    stack.insert(stack.end(), std::make_move_iterator(below.rbegin()),
                 std::make_move_iterator(below.rend()));
  }
  const size_t left_out = tree_.nodes_size() - shown_.size();
  if (left_out > 0) {
    absl::StrAppendFormat(&out, "%s… and %d %s\n", kRootIndent, left_out,
                          left_out == 1 ? "more node" : "more nodes");
  }
  return out;
}

}  // namespace

std::string TokenLabel(absl::string_view text, int32_t token_id) {
  return text.empty() ? absl::StrCat("token ", token_id) : VisibleText(text);
}

const char* SourceName(v1::NodeSource source) {
  switch (source) {
    case v1::NODE_SOURCE_DRAFT:
      return "draft";
    case v1::NODE_SOURCE_TABLE:
      return "table";
    case v1::NODE_SOURCE_REQUEST:
      return "request";
    case v1::NODE_SOURCE_LEARNED:
      return "learned";
    default:
      return "unknown";
  }
}

double PathProbability(const v1::VerifiedTree::Node& node) {
  const double probability = node.path_probability();
  return std::isfinite(probability) ? std::clamp(probability, 0.0, 1.0) : 0;
}

int ParentOf(const v1::VerifiedTree& tree, int index) {
  const uint32_t parent = tree.nodes(index).parent();
  return parent <= static_cast<uint32_t>(index) ? static_cast<int>(parent) - 1 : kRoot;
}

std::vector<int> NodesToShow(const v1::VerifiedTree& tree, size_t max_nodes) {
  std::vector<int> order(tree.nodes_size());
  std::iota(order.begin(), order.end(), 0);
  // No node is more probable than its parent, so a parent comes before its children.
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    const v1::VerifiedTree::Node& first = tree.nodes(a);
    const v1::VerifiedTree::Node& second = tree.nodes(b);
    if (first.accepted() != second.accepted()) return first.accepted();
    return PathProbability(first) > PathProbability(second);
  });
  std::vector<bool> is_shown(tree.nodes_size());
  std::vector<int> shown;
  for (const int node : order) {
    if (!tree.nodes(node).accepted() && shown.size() >= max_nodes) break;
    const int parent = ParentOf(tree, node);
    if (parent != kRoot && !is_shown[parent]) continue;
    is_shown[node] = true;
    shown.push_back(node);
  }
  std::sort(shown.begin(), shown.end());
  return shown;
}

std::string DrawTree(const v1::VerifiedTree& tree, const TreeStyle& style) {
  return TreeDrawing(tree, style).Draw();
}

}  // namespace bastion
