// The nodes that a drafter expands in one cycle: which rows predict them, and what they see.
#include "drafter_service/engine/drafted_tree.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion::drafter {
namespace {

using ::testing::ElementsAre;

constexpr Position kCommitted = 9;
constexpr TokenId kRoot = 1;

TEST(DraftedTreeTest, MissingNodesOfAPathAreAdded) {
  DraftedTree tree;
  tree.Begin(kCommitted, kRoot, /*positions=*/1);
  EXPECT_EQ(tree.Add({}), 0);
  EXPECT_EQ(tree.Add({5, 6, 7}), 3);
  EXPECT_EQ(tree.Add({5, 6}), 2);
  EXPECT_THAT(tree.NewTokens(4), ElementsAre(kRoot, 5, 6, 7));
  EXPECT_EQ(tree.EndOfLevel(), 1) << "only the root has its parent in the cache";
  tree.MarkCached(4);
  EXPECT_EQ(tree.Add({5, 6}), 4) << "the logits of a cached node are gone";
  EXPECT_EQ(tree.Add({5, 6, 8}), 5);
  EXPECT_EQ(tree.predictor(5), 4) << "the latest node";
  EXPECT_THAT(tree.NewAncestors(6), ElementsAre(0b010011, 0b110011));
}

TEST(DraftedTreeTest, ANodeOnASpineStartsFromTheRowThatPredictedIt) {
  DraftedTree tree;
  tree.Begin(kCommitted, kRoot, /*positions=*/3);
  EXPECT_EQ(tree.Add({5, 6}), std::nullopt) << "the root's spine is not known";
  EXPECT_EQ(tree.Add({}), 0);
  tree.MarkCached(1);
  tree.SetSpine(0, {5, 6, 7});
  // All of them start in one round, from the root's rows.
  EXPECT_EQ(tree.Add({5}), 1);
  EXPECT_EQ(tree.Add({5, 6}), 2);
  EXPECT_EQ(tree.Add({5, 8}), 3);
  EXPECT_EQ(tree.Add({5, 6, 7}), 4);
  EXPECT_EQ(tree.EndOfLevel(), 5);
  EXPECT_EQ(tree.predictor(1), 0);
  EXPECT_EQ(tree.predictor(2), 1);
  EXPECT_EQ(tree.predictor(3), 1);
  EXPECT_EQ(tree.predictor(4), 2);
  EXPECT_EQ(tree.depth(4), 3);
  EXPECT_THAT(tree.NewPlaces(2, /*by_depth=*/false), ElementsAre(0, 1, 2));
  EXPECT_THAT(tree.NewPlaces(2, /*by_depth=*/true), ElementsAre(1, 2, 3));
  // The second row of node 3 sees two rows of the root and its own first two, at rows 9 and 10.
  EXPECT_EQ(tree.NewAncestors(5)[(3 - 1) * 3 + 1], 0b011000000011u);
}

TEST(DraftedTreeTest, TheNearestExpandedNodePredicts) {
  DraftedTree tree;
  tree.Begin(kCommitted, kRoot, /*positions=*/3);
  tree.MarkCached(1);
  tree.SetSpine(0, {5, 6, 7});
  (void)tree.Add({5});
  tree.MarkCached(2);
  tree.SetSpine(1, {6, 9, 9});
  EXPECT_EQ(tree.predictor(*tree.Add({5, 6})), 3) << "the first row of node 1";
  EXPECT_EQ(tree.predictor(*tree.Add({5, 6, 7})), 4) << "its second row";
}

TEST(DraftedTreeTest, ANodeOffTheSpineIsExpandedBeforeWhatFollowsIt) {
  DraftedTree tree;
  tree.Begin(kCommitted, kRoot, /*positions=*/3);
  tree.MarkCached(1);
  tree.SetSpine(0, {5, 6, 7});
  EXPECT_EQ(tree.Add({8, 4}), 2) << "node 1 is at {8}";
  EXPECT_EQ(tree.predictor(1), 0);
  EXPECT_EQ(tree.EndOfLevel(), 2);
  EXPECT_EQ(tree.Add({8, 4, 4, 4}), std::nullopt) << "node 2 may predict it";
}

TEST(DraftedTreeTest, ATreeIsThatOfItsRoot) {
  DraftedTree tree;
  EXPECT_FALSE(tree.Is(kCommitted, kRoot));
  tree.Begin(kCommitted, kRoot, 1);
  EXPECT_TRUE(tree.Is(kCommitted, kRoot));
  EXPECT_FALSE(tree.Is(kCommitted + 1, kRoot));
  EXPECT_FALSE(tree.Is(kCommitted, kRoot + 1));
}

}  // namespace
}  // namespace bastion::drafter
