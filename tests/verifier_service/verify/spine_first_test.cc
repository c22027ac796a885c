#include "verifier_service/verify/spine_first.h"

#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion::verifier {
namespace {

using ::testing::ElementsAre;

TEST(SpineFirstTest, ATreeInSpineFirstOrderIsUnchanged) {
  DraftTree tree(1);
  EXPECT_FALSE(PutSpineFirst(tree).has_value());
  tree.Add(0, 10, -0.1f);
  tree.Add(1, 11, -0.3f);
  EXPECT_FALSE(PutSpineFirst(tree).has_value());
  tree.Add(0, 12, -0.5f);
  tree.Add(3, 13, -0.6f);
  EXPECT_FALSE(PutSpineFirst(tree).has_value());
}

TEST(SpineFirstTest, TheBestChildOfEachNodeComesFirstAndTheOthersKeepTheirOrder) {
  DraftTree tree(1);
  tree.Add(0, 10, -2.0f);                              // 1
  const NodeIndex good = tree.Add(0, 11, -0.1f);       // 2
  tree.Add(1, 12, -2.5f);                              // 3
  tree.Add(good, 13, -0.9f);                           // 4
  const NodeIndex better = tree.Add(good, 14, -0.2f);  // 5
  tree.Add(better, 15, -0.4f);                         // 6
  const auto order = PutSpineFirst(tree);
  ASSERT_TRUE(order.has_value());
  EXPECT_EQ(order->nodes, (std::vector<NodeIndex>{0, 2, 5, 6, 1, 3, 4}));
  EXPECT_THAT(order->tree.tokens(), ElementsAre(1, 11, 14, 15, 10, 12, 13));
  EXPECT_EQ(order->tree.parents(), (std::vector<NodeIndex>{kNoNode, 0, 1, 2, 0, 4, 1}));
}

TEST(SpineFirstTest, AnyTreeKeepsItsPathsAndInvariants) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    DraftTree tree(0);
    const int nodes = static_cast<int>(random() % 40);
    for (int i = 1; i <= nodes; ++i) {
      const auto parent = NodeIndex::Of(random() % tree.rows());
      tree.Add(parent, i, tree.log_score(parent) - static_cast<float>(random() % 8));
    }
    const auto order = PutSpineFirst(tree);
    if (!order.has_value()) continue;
    ASSERT_TRUE(order->tree.Validate(nodes + 1).ok());
    ASSERT_EQ(order->tree.rows(), tree.rows());
    for (NodeIndex row = 1; row < tree.rows(); ++row) {
      const NodeIndex node = order->nodes[row];
      EXPECT_EQ(order->tree.token(row), tree.token(node));
      EXPECT_EQ(order->nodes[order->tree.parent(row)], tree.parent(node));
      EXPECT_EQ(order->tree.depth(row), tree.depth(node));
    }
    EXPECT_FALSE(PutSpineFirst(order->tree).has_value());
  }
}

}  // namespace
}  // namespace bastion::verifier
