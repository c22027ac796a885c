#include "orchestrator/tree/specblock.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "tests/support/borrow.h"
#include "tests/support/node_oracle.h"
#include "tests/support/random_marginals.h"
#include "tests/support/specblock_reference.h"

namespace bastion {
namespace {

using ::bastion::testing::Borrow;
using ::bastion::testing::EdgeCase;
using ::bastion::testing::MarginalsOf;
using ::bastion::testing::NaiveLiteral;
using ::bastion::testing::NaiveNode;
using ::bastion::testing::NaiveReleased;
using ::bastion::testing::NodeOracle;
using ::bastion::testing::RandomMarginals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr TokenId kSpecRoot = 5000;
constexpr int kNoDepthLimit = std::numeric_limits<int>::max();

std::vector<NaiveNode> NaiveNodesOf(const DraftTree& tree) {
  std::vector<NaiveNode> nodes;
  for (NodeIndex node = 1; node < tree.rows(); ++node) {
    nodes.push_back({PathOf(tree, node), tree.log_score(node)});
  }
  return nodes;
}

std::vector<NaiveNode> RoundedScores(std::vector<NaiveNode> nodes) {
  for (NaiveNode& node : nodes) node.score = static_cast<float>(node.score);
  return nodes;
}

// Grows the tree in rounds: the nodes that were asked for in vain are expanded in the next one.
DraftTree GrowBlocksInRounds(const SpecBlockShape& shape, const NodeOracle& oracle,
                             std::vector<int>* expanded = nullptr, int depth = kNoDepthLimit) {
  CycleDraft draft;
  draft.set_expands_nodes(true);
  for (;;) {
    DraftTree tree = GrowSpecBlock(kSpecRoot, Borrow(DraftCandidates(draft, depth)), shape);
    const std::vector<TreePath> missing = draft.TakeMissing();
    if (missing.empty()) return tree;
    if (expanded != nullptr) expanded->push_back(static_cast<int>(missing.size()));
    for (const TreePath& path : missing) {
      EXPECT_LT(static_cast<int>(path.size()), depth);
      draft.Add(path, oracle.At(path));
    }
  }
}

class SpecBlockTest : public ::testing::Test {
 protected:
  int Roll(int lowest, int highest) {
    return std::uniform_int_distribution<>(lowest, highest)(random_);
  }
  SpecBlockShape RandomShape() {
    SpecBlockShape shape;
    if (Roll(0, 1) == 1) shape.map = {Roll(0, 3), Roll(0, 5), Roll(0, 12), Roll(0, 3)};
    if (Roll(0, 1) == 1) shape.nodes = Roll(1, 12);
    if (Roll(0, 2) == 2) shape.nodes = Roll(1, 120);
    shape.blocks = Roll(1, 4);
    if (Roll(0, 1) == 1) shape.starts = Roll(1, 8);
    if (Roll(0, 4) == 4) shape.uniform = Roll(1, 6);
    shape.any_bucket = Roll(0, 3) == 3;
    return shape;
  }
  NodeOracle RandomOracle() {
    const EdgeCase edges[] = {EdgeCase::kNone, EdgeCase::kTies, EdgeCase::kZeroTails};
    const double sharpness[] = {1, 4, 12, 60};
    return NodeOracle(random_(), Roll(1, 12), sharpness[Roll(0, 3)], Roll(1, 5), edges[Roll(0, 2)]);
  }

  std::mt19937 random_{7};
};

TEST_F(SpecBlockTest, EqualsANaiveImplementation) {
  for (int draw = 0; draw < 600; ++draw) {
    const NodeOracle oracle = RandomOracle();
    const SpecBlockShape shape = RandomShape();
    std::vector<int> expanded;
    const DraftTree tree = GrowBlocksInRounds(shape, oracle, &expanded);
    ASSERT_EQ(NaiveNodesOf(tree), RoundedScores(NaiveReleased(oracle, shape).best())) << draw;
    ASSERT_TRUE(tree.Validate(kSpecRoot + 1).ok()) << tree.Validate(kSpecRoot + 1);
    EXPECT_LE(static_cast<int>(expanded.size()), shape.blocks);
  }
}

TEST_F(SpecBlockTest, TheLiteralOneEqualsANaiveImplementation) {
  for (int draw = 0; draw < 600; ++draw) {
    const NodeOracle oracle = RandomOracle();
    SpecBlockShape shape = RandomShape();
    shape.literal = true;
    std::vector<int> expanded;
    const DraftTree tree = GrowBlocksInRounds(shape, oracle, &expanded);
    ASSERT_EQ(NaiveNodesOf(tree), RoundedScores(NaiveLiteral(oracle, shape))) << draw;
    ASSERT_TRUE(tree.Validate(kSpecRoot + 1).ok()) << tree.Validate(kSpecRoot + 1);
    EXPECT_LE(static_cast<int>(expanded.size()), shape.blocks);
  }
}

// K = 3. The root's block has buckets 1, 0, 3. Tokens 100·position + rank.
Marginals SampleBlock() {
  Marginals block = MarginalsOf({{0.5, 0.25, 0.125, 0.0625, 0.03125},
                                 {0.5, 0.25, 0.125, 0.0625, 0.03125},
                                 {0.5, 0.25, 0.125, 0.0625, 0.03125}});
  block.buckets = {1, 0, 3};
  return block;
}

TEST_F(SpecBlockTest, AHandWorkedLiteralTree) {
  CycleDraft draft;
  draft.set_expands_nodes(true);
  draft.Add({}, SampleBlock());
  const SpecBlockShape shape = {
      .map = {2, 3, 4, 0}, .nodes = 9, .blocks = 2, .starts = 2, .literal = true};
  const auto grow = [&] { return GrowSpecBlock(kSpecRoot, Borrow(DraftCandidates(draft)), shape); };
  // Slot 1, bucket 1: 0 (1/2), 1 (1/4), 2 (1/8). Slot 2, bucket 0, below 0: 100 (1/4), 101 (1/8).
  // Slot 3, bucket 3, ends the block.
  DraftTree tree = grow();
  EXPECT_THAT(tree.tokens(), ElementsAre(kSpecRoot, 0, 1, 2, 100, 101));
  EXPECT_EQ(tree.parents(), (std::vector<NodeIndex>{kNoNode, 0, 0, 0, 1, 1}));
  // The siblings of slot 1 start blocks. Those of bucket 0 and the end of the cut chain do not.
  EXPECT_THAT(draft.TakeMissing(), ElementsAre(TreePath{1}, TreePath{2}));
  // Node 1 is better: it adds 0 and 1, and, below 0, tokens 100, 101 and 102 of 3. The tree is full
  // before the second start.
  Marginals block = SampleBlock();
  block.buckets = {0, 1, 2};
  draft.Add(TreePath{1}, block);
  draft.Add(TreePath{2}, block);
  tree = grow();
  EXPECT_THAT(tree.tokens(), ElementsAre(kSpecRoot, 0, 1, 2, 100, 101, 0, 1, 100, 101));
  EXPECT_EQ(tree.parents(), (std::vector<NodeIndex>{kNoNode, 0, 0, 0, 1, 1, 2, 2, 6, 6}));
  EXPECT_FLOAT_EQ(tree.log_score(9), std::log(0.25f * 0.5f * 0.25f));
  EXPECT_THAT(draft.TakeMissing(), IsEmpty());
}

TEST_F(SpecBlockTest, AHandWorkedReleasedTree) {
  CycleDraft draft;
  draft.set_expands_nodes(true);
  draft.Add({}, SampleBlock());
  const SpecBlockShape shape = {.nodes = 7};
  const auto grow = [&] { return GrowSpecBlock(kSpecRoot, Borrow(DraftCandidates(draft)), shape); };
  // The pool: the chain 0 (1/2), 100 (1/4), 200 (1/8), although slot 3 gives up. The 4 siblings of
  // slot 1, whose width is 10: 1/4, 1/8, 1/16, 1/32. One sibling of slot 2: 101 (1/8).
  DraftTree tree = grow();
  EXPECT_THAT(tree.tokens(), ElementsAre(kSpecRoot, 0, 100, 1, 200, 2, 101, 3));
  EXPECT_EQ(tree.parents(), (std::vector<NodeIndex>{kNoNode, 0, 1, 0, 2, 0, 1, 0}));
  // All nodes of slots 1 and 2 start blocks. The end of the chain does not.
  EXPECT_THAT(draft.TakeMissing(), ElementsAre(TreePath{0}, TreePath{0, 100}, TreePath{0, 101},
                                               TreePath{1}, TreePath{2}, TreePath{3}, TreePath{4}));
  // The block of node 0 predicts 100 as well, with a higher probability. They are one node.
  Marginals block = MarginalsOf({{0.75, 0.25}});
  block.tokens = {100, 101};
  block.buckets = {0};
  draft.Add(TreePath{0}, block);
  tree = grow();
  EXPECT_THAT(tree.tokens(), ElementsAre(kSpecRoot, 0, 100, 1, 200, 2, 101, 3));
  EXPECT_FLOAT_EQ(tree.log_score(2), std::log(0.5f * 0.75f));
  EXPECT_FLOAT_EQ(tree.log_score(4), std::log(0.5f * 0.75f * 0.5f));
}

// The nodes of the root and of its best child in the pool, for a block of two slots.
std::pair<int, int> WidthsOf(double first, double second, uint8_t bucket, SpecBlockShape shape) {
  shape.blocks = 1;
  shape.nodes = 4096;
  Marginals block = MarginalsOf(testing::Ladder(1, 20, first));
  const Marginals more = MarginalsOf(testing::Ladder(1, 20, second));
  block.positions = 2;
  for (const TokenId token : more.tokens) block.tokens.push_back(100 + token);
  block.log_probs.insert(block.log_probs.end(), more.log_probs.begin(), more.log_probs.end());
  block.buckets = {3, bucket};
  const DraftTree tree = GrowSpecBlock(kSpecRoot, Borrow(DraftCandidates(block)), shape);
  const auto count = [&tree](int depth) {
    int nodes = 0;
    for (NodeIndex node = 1; node < tree.rows(); ++node) nodes += tree.depth(node) == depth ? 1 : 0;
    return nodes;
  };
  return {count(1), count(2)};
}

TEST_F(SpecBlockTest, ConfidenceCutsTheWidths) {
  const SpecBlockShape shape;
  // Slot 1 ignores its bucket.
  EXPECT_EQ(WidthsOf(0.91, 0.5, 0, shape), std::make_pair(3, 2));
  EXPECT_EQ(WidthsOf(0.81, 0.5, 1, shape), std::make_pair(5, 4));
  EXPECT_EQ(WidthsOf(0.61, 0.5, 2, shape), std::make_pair(8, 10));
  EXPECT_EQ(WidthsOf(0.59, 0.5, 3, shape), std::make_pair(10, 1));
  // Slot 2 is narrower if its first candidate is probable.
  EXPECT_EQ(WidthsOf(0.5, 0.96, 2, shape), std::make_pair(10, 2));
  EXPECT_EQ(WidthsOf(0.5, 0.86, 2, shape), std::make_pair(10, 3));
  EXPECT_EQ(WidthsOf(0.5, 0.86, 0, shape), std::make_pair(10, 2));
  EXPECT_EQ(WidthsOf(0.5, 0.84, 2, shape), std::make_pair(10, 10));
  EXPECT_EQ(WidthsOf(0.5, 0.5, 3, {.map = {2, 4, 6, 4}}), std::make_pair(10, 4));
  // Uniform widths have no cuts.
  EXPECT_EQ(WidthsOf(0.95, 0.99, 3, {.uniform = 5}), std::make_pair(5, 5));
}

TEST_F(SpecBlockTest, AGivenUpChainStillEntersThePool) {
  Marginals block = SampleBlock();
  block.buckets = {1, 3, 2};
  CycleDraft draft;
  draft.set_expands_nodes(true);
  draft.Add({}, block);
  const DraftTree tree = GrowSpecBlock(kSpecRoot, Borrow(DraftCandidates(draft)), SpecBlockShape());
  // 5 candidates of slot 1, and one child for each further slot.
  EXPECT_THAT(tree.tokens(), ElementsAre(kSpecRoot, 0, 100, 1, 200, 2, 3, 4));
  EXPECT_THAT(draft.TakeMissing(),
              ElementsAre(TreePath{0}, TreePath{1}, TreePath{2}, TreePath{3}, TreePath{4}));
}

TEST_F(SpecBlockTest, LaterRoundsStartFewBlocks) {
  const NodeOracle oracle(3, 12, 4, 4);
  std::vector<int> expanded;
  EXPECT_EQ(GrowBlocksInRounds({.nodes = 60, .blocks = 4}, oracle, &expanded).nodes(), 60);
  // The pool has more than 60 nodes after the second block.
  ASSERT_EQ(expanded.size(), 4);
  EXPECT_EQ(expanded[0], 1);
  EXPECT_GE(expanded[1], 10);
  EXPECT_EQ(expanded[2], 1);
  EXPECT_EQ(expanded[3], 1);
  expanded.clear();
  (void)GrowBlocksInRounds({.nodes = 4096, .blocks = 3}, oracle, &expanded);
  EXPECT_EQ(expanded[2], 10);
}

TEST_F(SpecBlockTest, NoStartIsTooDeepToHaveChildren) {
  for (const bool literal : {false, true}) {
    for (int depth = 0; depth <= 6; ++depth) {
      const NodeOracle oracle(depth, 12, 4, 4);
      std::vector<int> expanded;
      const SpecBlockShape shape = {.nodes = 200, .blocks = 6, .starts = 10, .literal = literal};
      const DraftTree tree = GrowBlocksInRounds(shape, oracle, &expanded, depth);
      int deepest = 0;
      for (NodeIndex node = 0; node < tree.rows(); ++node) {
        deepest = std::max(deepest, tree.depth(node));
      }
      EXPECT_LE(deepest, depth);
      // The first slot of the literal tree can give up.
      EXPECT_TRUE(literal || (tree.nodes() > 0) == (depth > 0));
    }
  }
}

TEST_F(SpecBlockTest, WithoutBucketsEveryPositionHasTheSecondWidth) {
  Marginals block = SampleBlock();
  block.buckets.clear();
  Marginals with_buckets = SampleBlock();
  with_buckets.buckets = {1, 1, 1};
  for (const bool literal : {false, true}) {
    const SpecBlockShape shape = {.literal = literal};
    const DraftTree tree = GrowSpecBlock(kSpecRoot, Borrow(DraftCandidates(block)), shape);
    EXPECT_EQ(tree, GrowSpecBlock(kSpecRoot, Borrow(DraftCandidates(with_buckets)), shape));
    EXPECT_GT(tree.nodes(), 40);
  }
}

TEST_F(SpecBlockTest, EveryDrafterGivesATree) {
  for (int draw = 0; draw < 300; ++draw) {
    SpecBlockShape shape = RandomShape();
    shape.literal = draw % 2 == 0;
    const Marginals block = RandomMarginals(random_, Roll(1, 16), Roll(1, 12),
                                            draw % 3 == 0 ? EdgeCase::kTies : EdgeCase::kNone, 4);
    const DraftTree tree = GrowSpecBlock(kSpecRoot, Borrow(DraftCandidates(block)), shape);
    EXPECT_TRUE(tree.Validate(kSpecRoot + 1).ok()) << tree.Validate(kSpecRoot + 1);
    EXPECT_LE(tree.nodes(), shape.nodes);
    EXPECT_GT(tree.nodes() + (shape.map[1] == 0 ? 1 : 0), 0);
  }
  const Marginals none;
  EXPECT_EQ(GrowSpecBlock(kSpecRoot, Borrow(DraftCandidates(none)), SpecBlockShape()),
            DraftTree(kSpecRoot));
  EXPECT_EQ(GrowSpecBlock(kSpecRoot, Borrow(DraftCandidates(none)), {.literal = true}),
            DraftTree(kSpecRoot));
}

// A drafter that answers only some of the expansions.
TEST_F(SpecBlockTest, MissingBlocksLeaveTheOthers) {
  const NodeOracle oracle(1, 12, 4, 4);
  for (const bool literal : {false, true}) {
    CycleDraft draft;
    draft.set_expands_nodes(true);
    for (int round = 0; round < 6; ++round) {
      const DraftTree tree = GrowSpecBlock(kSpecRoot, Borrow(DraftCandidates(draft)),
                                           {.nodes = 200, .blocks = 3, .literal = literal});
      EXPECT_TRUE(tree.Validate(kSpecRoot + 1).ok());
      for (const TreePath& path : draft.TakeMissing()) {
        if (path.empty() || random_() % 2 == 0) draft.Add(path, oracle.At(path));
      }
    }
  }
}

TEST_F(SpecBlockTest, NoNodesFailACheck) {
  const Marginals none;
  EXPECT_DEATH((void)GrowSpecBlock(kSpecRoot, Borrow(DraftCandidates(none)), {.nodes = 0}),
               "nodes");
}

}  // namespace
}  // namespace bastion
