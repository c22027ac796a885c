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
  for (const NodeIndex node : {0, 1, 2, 3}) {
    const CycleDraft::Place place = draft.Find(tree, node);
    ASSERT_TRUE(place.known());
    EXPECT_EQ(place.position, tree.depth(node));
    EXPECT_EQ(place.index, tree.depth(node));
  }
  EXPECT_FALSE(draft.After(tree, 4).known());
  EXPECT_THAT(draft.TakeMissing(), IsEmpty());  // It cannot expand nodes.
}

TEST(CycleDraftTest, TheNearestExpandedAncestorCounts) {
  CycleDraft draft;
  draft.set_expands_nodes(true);
  draft.Add({}, SomeMarginals(3, 1));
  draft.Add(TreePath{5}, SomeMarginals(2, 2));
  EXPECT_EQ(draft.places(), 5);
  const auto after = [&draft](const TreePath& path) { return draft.Find(path); };
  EXPECT_EQ(after({}).index, 0);
  EXPECT_EQ(after({5}).index, 3);
  EXPECT_EQ(after({5}).position, 0);
  EXPECT_EQ(after({5, 1}).index, 4);
  EXPECT_EQ(after({6}).index, 1);  // Not expanded: the root reaches it.
  EXPECT_EQ(after({6, 1}).position, 2);
  EXPECT_FALSE(after({5, 1, 1}).known());
  EXPECT_FALSE(after({6, 1, 1}).known());
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
