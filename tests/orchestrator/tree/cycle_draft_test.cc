#include "orchestrator/tree/cycle_draft.h"

#include <random>

#include "gmock/gmock.h"
#include "tests/support/random_marginals.h"

namespace bastion {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Marginals SomeMarginals(int positions, uint32_t seed = 1) {
  std::mt19937 random(seed);
  return testing::RandomMarginals(random, positions, 4);
}

TEST(CycleDraftTest, ABlockDrafterPredictsByDepth) {
  CycleDraft draft(SomeMarginals(3));
  EXPECT_EQ(draft.max_depth(), 3);
  EXPECT_EQ(draft.places(), 3);
  DraftTree tree(7);
  tree.Add(0, 1, -1);
  tree.Add(0, 2, -1);
  tree.Add(2, 5, -2);
  tree.Add(3, 5, -3);
  for (const NodeIndex node : std::vector<NodeIndex>{0, 1, 2, 3}) {
    const CycleDraft::Place place = draft.Find(tree, node);
    ASSERT_TRUE(place.known());
    EXPECT_EQ(place.position, tree.depth(node));
    EXPECT_EQ(place.index, tree.depth(node));
  }
  EXPECT_FALSE(draft.After(tree, 4).known());
  EXPECT_THAT(draft.TakeMissing(), IsEmpty());  // It cannot expand nodes.
}

// The tokens of position p are 100·p, 100·p + 1, …, best first.
TEST(CycleDraftTest, TheNearestExpandedAncestorCounts) {
  CycleDraft draft;
  draft.set_expands_nodes(true);
  draft.Add({}, SomeMarginals(3, 1));
  draft.Add(TreePath{0}, SomeMarginals(2, 2));
  draft.Add(TreePath{5}, SomeMarginals(2, 3));
  EXPECT_EQ(draft.places(), 7);
  EXPECT_EQ(draft.positions(), 3);
  const auto after = [&draft](const TreePath& path) { return draft.Find(path); };
  EXPECT_EQ(after({}).index, 0);
  EXPECT_EQ(after({0}).index, 3);  // Its own block, and not position 1 of the root's.
  EXPECT_EQ(after({0}).position, 0);
  EXPECT_EQ(after({0, 0}).index, 4);
  EXPECT_EQ(after({0, 100}).index, 2);  // Off the spine of {0}, but on that of the root.
  EXPECT_EQ(after({0, 100}).position, 2);
  EXPECT_EQ(after({5}).index, 5);
  EXPECT_EQ(after({5, 0}).index, 6);
  EXPECT_FALSE(after({0, 0, 100}).known());
  EXPECT_FALSE(after({0, 100, 200}).known());
  EXPECT_FALSE(after({5, 0, 100}).known());
}

TEST(CycleDraftTest, LaterPositionsHoldForTheSpineOnly) {
  CycleDraft draft;
  draft.set_expands_nodes(true);
  draft.Add({}, SomeMarginals(3));
  DraftTree tree(7);
  tree.Add(0, 0, -1);    // 1: the spine.
  tree.Add(0, 1, -1);    // 2: a sibling, which would get the distribution of node 1.
  tree.Add(1, 100, -2);  // 3: the spine.
  tree.Add(1, 101, -2);  // 4: a sibling.
  tree.Add(2, 100, -2);  // 5: the child of a sibling.
  tree.Add(3, 200, -3);  // 6: beyond the block.
  for (const NodeIndex node : std::vector<NodeIndex>{0, 1, 3}) {
    EXPECT_EQ(draft.After(tree, node).position, tree.depth(node)) << node;
  }
  for (const NodeIndex node : std::vector<NodeIndex>{2, 4, 5, 6})
    EXPECT_FALSE(draft.After(tree, node).known()) << node;
  EXPECT_THAT(draft.TakeMissing(),
              ElementsAre(TreePath{0, 100, 200}, TreePath{0, 101}, TreePath{1}, TreePath{1, 100}));
  // Position 1 of a sibling's own block holds for the spine of that block.
  draft.Add(TreePath{1}, SomeMarginals(2));
  tree.Add(2, 0, -2);  // 7
  EXPECT_EQ(draft.After(tree, 2).index, 3);
  EXPECT_EQ(draft.After(tree, 7).index, 4);
  EXPECT_FALSE(draft.After(tree, 5).known());
}

TEST(CycleDraftTest, ABlockIsThatOfItsStartAlone) {
  CycleDraft draft;
  draft.set_expands_nodes(true);
  draft.Add({}, SomeMarginals(3, 1));
  draft.Add(TreePath{0}, SomeMarginals(3, 2));
  DraftTree tree(7);
  tree.Add(0, 0, -1);    // 1
  tree.Add(1, 100, -2);  // 2: on the spine of the root.
  tree.Add(1, 0, -2);    // 3: on that of node 1.
  EXPECT_EQ(draft.InBlock(tree, 0, 0).index, 0);
  EXPECT_EQ(draft.InBlock(tree, 0, 1).index, 1);
  EXPECT_EQ(draft.InBlock(tree, 1, 1).index, 3);
  EXPECT_EQ(draft.InBlock(tree, 0, 2).index, 2);
  EXPECT_EQ(draft.InBlock(tree, 1, 3).index, 4);
  EXPECT_FALSE(draft.InBlock(tree, 0, 3).known());
  EXPECT_FALSE(draft.InBlock(tree, 1, 2).known());
  EXPECT_THAT(draft.TakeMissing(), IsEmpty());
  // The root's block reaches node 2, but node 2 has none of its own.
  EXPECT_FALSE(draft.InBlock(tree, 2, 2).known());
  EXPECT_FALSE(draft.InBlock(tree, 3, 3).known());
  EXPECT_THAT(draft.TakeMissing(), ElementsAre(TreePath{0, 0}, TreePath{0, 100}));
}

TEST(CycleDraftTest, ABlockDrafterHasOneBlock) {
  CycleDraft draft(SomeMarginals(3));
  DraftTree tree(7);
  tree.Add(0, 1, -1);
  tree.Add(1, 5, -1);
  for (const NodeIndex start : std::vector<NodeIndex>{0, 1, 2}) {
    EXPECT_EQ(draft.InBlock(tree, start, 2).position, 2) << start;
  }
  EXPECT_THAT(draft.TakeMissing(), IsEmpty());
}

TEST(CycleDraftTest, RemembersEachMissingPathOnce) {
  CycleDraft draft;
  draft.set_expands_nodes(true);
  draft.Add({}, SomeMarginals(1));
  DraftTree tree(7);
  tree.Add(0, 9, -1);
  tree.Add(0, 8, -1);
  EXPECT_TRUE(draft.After(tree, 0).known());
  EXPECT_FALSE(draft.After(tree, 1).known());
  EXPECT_FALSE(draft.After(tree, 1).known());
  EXPECT_FALSE(draft.After(tree, 2).known());
  EXPECT_FALSE(draft.Find(TreePath{8, 1}).known());  // Records nothing.
  EXPECT_THAT(draft.TakeMissing(), ElementsAre(TreePath{8}, TreePath{9}));
  EXPECT_THAT(draft.TakeMissing(), IsEmpty());
}

TEST(CycleDraftTest, ThePairRowIsTheRankOfTheTokenBefore) {
  Marginals marginals = SomeMarginals(2);
  marginals.pair_scores.resize(32);
  CycleDraft draft(marginals);
  DraftTree tree(100);  // The root is no candidate.
  tree.Add(0, 2, -1);
  tree.Add(0, 55, -1);
  EXPECT_EQ(draft.Find(tree, 0).pair_row, 0);
  EXPECT_EQ(draft.Find(tree, 1).pair_row, 2);
  EXPECT_EQ(draft.Find(tree, 2).pair_row, CycleDraft::kNoPairRow);
  EXPECT_EQ(draft.Find(TreePath{}).pair_row, 0);
  EXPECT_EQ(draft.Find(TreePath{3}).pair_row, 3);
  EXPECT_EQ(draft.InBlock(tree, 0, 1).pair_row, 2);
  const CycleDraft plain(SomeMarginals(2));
  EXPECT_EQ(plain.Find(tree, 1).pair_row, CycleDraft::kNoPairRow);
  // Later positions of a block are for the candidates of rank 1 alone.
  CycleDraft nodes;
  nodes.set_expands_nodes(true);
  nodes.Add(TreePath{2}, marginals);
  EXPECT_EQ(nodes.Find(TreePath{2}).pair_row, 0);
  EXPECT_EQ(nodes.Find(TreePath{2, 0}).pair_row, 0);
  EXPECT_FALSE(nodes.Find(TreePath{2, 1}).known());
}

TEST(CycleDraftTest, EmptyMarginalsAreNoPrediction) {
  CycleDraft draft;
  draft.Add({}, {});
  EXPECT_TRUE(draft.empty());
  EXPECT_EQ(draft.max_depth(), 0);
}

TEST(CycleDraftTest, ClearForgetsEverything) {
  CycleDraft draft(SomeMarginals(3));
  draft.set_expands_nodes(true);
  DraftTree tree(7);
  for (NodeIndex node = 0; node < 4; ++node) tree.Add(node, 1, -1);
  EXPECT_FALSE(draft.After(tree, 4).known());
  draft.Clear();
  EXPECT_TRUE(draft.empty());
  EXPECT_THAT(draft.TakeMissing(), IsEmpty());
  EXPECT_FALSE(draft.Find(TreePath{}).known());
}

}  // namespace
}  // namespace bastion
