#include "client/ctl/tree_drawing.h"

#include <limits>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

struct NodeSpec {
  uint32_t parent = 0;
  std::string text;
  float probability = 0;
  bool accepted = false;
  v1::NodeSource source = v1::NODE_SOURCE_DRAFT;
};

v1::VerifiedTree Tree(const std::vector<NodeSpec>& specs) {
  v1::VerifiedTree tree;
  tree.set_root_text("def");
  tree.set_next_text(":");
  for (const NodeSpec& spec : specs) {
    v1::VerifiedTree::Node& node = *tree.add_nodes();
    node.set_parent(spec.parent);
    node.set_text(spec.text);
    node.set_path_probability(spec.probability);
    node.set_accepted(spec.accepted);
    node.set_source(spec.source);
  }
  return tree;
}

// A path of two accepted nodes with a less and a more probable sibling each.
v1::VerifiedTree Branches() {
  return Tree({{0, " run", 0.5},
               {0, " main", 0.3, true, v1::NODE_SOURCE_TABLE},
               {0, " test", 0.1},
               {1, "(", 0.45},
               {2, "(", 0.2, true, v1::NODE_SOURCE_REQUEST},
               {2, "_", 0.0003, false, v1::NODE_SOURCE_LEARNED}});
}

TEST(TreeDrawing, TheAcceptedPathHasMarksAndHeavyLines) {
  EXPECT_EQ(DrawTree(Branches(), {}),
            "                        def\n"
            "      50.0 %  draft     ┠─ ·run\n"
            "      45.0 %  draft     ┃ └─ (\n"
            "  ✓   30.0 %  table     ┡━ ·main\n"
            "  ✓   20.0 %  request   │ ┡━ (\n"
            "  +           target    │ │ ┗━ :\n"
            "       0.0 %  learned   │ └─ _\n"
            "      10.0 %  draft     └─ ·test\n");
}

TEST(TreeDrawing, WithoutAcceptedNodesThePathIsTheTokenOfTheTarget) {
  EXPECT_EQ(DrawTree(Tree({{0, " run", 0.5}}), {}),
            "                        def\n"
            "  +           target    ┡━ :\n"
            "      50.0 %  draft     └─ ·run\n");
}

TEST(TreeDrawing, NoTokenCanControlTheTerminal) {
  v1::VerifiedTree tree = Tree({{0, "\x1b]0;owned\x07", 0.5, true}, {1, "a\nb", 0.2}});
  tree.set_root_text("\x1b[2J");
  tree.set_next_text("\r\u202E");
  const std::string drawing = DrawTree(tree, {});
  for (const char control : {'\x1b', '\x07', '\r'}) {
    EXPECT_THAT(drawing, Not(HasSubstr(std::string(1, control))));
  }
  EXPECT_THAT(drawing, HasSubstr("\\x1b]0;owned\\x07"));
  EXPECT_THAT(drawing, HasSubstr("a\\nb"));
  EXPECT_THAT(drawing, HasSubstr("\\r\\u{202e}"));
}

TEST(TreeDrawing, AnAnsweredTokenWithoutTextIsShownById) {
  EXPECT_EQ(TokenLabel("", 17), "token 17");
  EXPECT_EQ(TokenLabel(" a", 17), "·a");
}

TEST(TreeDrawing, ColorsAreOnlyUsedIfAskedFor) {
  EXPECT_THAT(DrawTree(Branches(), {}), Not(HasSubstr("\x1b")));
  const std::string drawing = DrawTree(Branches(), {.color = true});
  const std::vector<std::string> lines = absl::StrSplit(drawing, '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 8u);
  for (size_t i = 1; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i].substr(lines[i].size() - 4), "\x1b[0m") << "the color must not leak";
  }
}

TEST(TreeDrawing, ACutTreeHasTheAcceptedPathAndTheMostProbableNodes) {
  const v1::VerifiedTree tree = Branches();
  EXPECT_THAT(NodesToShow(tree, 0), ElementsAre(1, 4));
  EXPECT_THAT(NodesToShow(tree, 3), ElementsAre(0, 1, 4));
  EXPECT_THAT(NodesToShow(tree, 5), ElementsAre(0, 1, 2, 3, 4));
  const std::string drawing = DrawTree(tree, {.max_nodes = 3});
  EXPECT_THAT(drawing, HasSubstr("·run"));
  EXPECT_THAT(drawing, Not(HasSubstr("·test")));
  EXPECT_THAT(drawing, HasSubstr("… and 3 more nodes\n"));
  EXPECT_THAT(DrawTree(tree, {.max_nodes = 5}), HasSubstr("… and 1 more node\n"));
}

TEST(TreeDrawing, ATreeThatNoServerShouldSendIsDrawn) {
  v1::VerifiedTree tree = Tree({{7, "own parent is later", 0.5, true},
                                {std::numeric_limits<uint32_t>::max(), "no parent", 3},
                                {3, "own parent", std::numeric_limits<float>::quiet_NaN()},
                                {2, "second accepted", -1, true},
                                {0, "third accepted", 0.2f, true}});
  EXPECT_EQ(ParentOf(tree, 0), -1);
  EXPECT_EQ(ParentOf(tree, 1), -1);
  EXPECT_EQ(ParentOf(tree, 2), -1);
  EXPECT_EQ(ParentOf(tree, 3), 1);
  EXPECT_EQ(PathProbability(tree.nodes(1)), 1);
  EXPECT_EQ(PathProbability(tree.nodes(2)), 0);
  EXPECT_EQ(PathProbability(tree.nodes(3)), 0);
  tree.mutable_nodes(2)->set_source(static_cast<v1::NodeSource>(99));
  EXPECT_THAT(DrawTree(tree, {}), HasSubstr("unknown"));
}

TEST(TreeDrawing, AVeryDeepTreeIsDrawnWithoutRecursion) {
  v1::VerifiedTree tree;
  for (uint32_t i = 0; i < 4096; ++i) {
    v1::VerifiedTree::Node& node = *tree.add_nodes();
    node.set_parent(i);
    node.set_accepted(true);
  }
  const std::vector<std::string> lines = absl::StrSplit(DrawTree(tree, {}), '\n');
  EXPECT_EQ(lines.size(), 4096u + 3) << "the root, the nodes, the target's token and the end";
}

}  // namespace
}  // namespace bastion
