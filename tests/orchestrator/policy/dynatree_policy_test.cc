#include "orchestrator/policy/dynatree_policy.h"

#include "gtest/gtest.h"
#include "orchestrator/policy/policy.h"

namespace bastion {
namespace {

DynaTreeShape ShapeOf(std::string_view argument) {
  const std::unique_ptr<const PolicyKind> policy = DynaTreePolicy::Parse(argument);
  EXPECT_NE(policy, nullptr) << argument;
  return policy == nullptr ? DynaTreeShape() : static_cast<const DynaTreePolicy&>(*policy).shape();
}

// A chain of `nodes` nodes.
DraftTree ChainOfNodes(int nodes) {
  DraftTree tree(1);
  for (int i = 0; i < nodes; ++i) tree.Add(NodeIndex::Of(i), 2, -1);
  return tree;
}

TEST(DynaTreePolicyTest, DefaultsAreThePapers) {
  const auto policy = DynaTreePolicy::Parse(std::nullopt);
  ASSERT_NE(policy, nullptr);
  const DynaTreeShape& shape = static_cast<const DynaTreePolicy&>(*policy).shape();
  EXPECT_EQ(shape.base_depth, 5);
  EXPECT_EQ(shape.max_depth, 8);
  EXPECT_EQ(shape.min_branches, 1);
  EXPECT_EQ(shape.max_branches, 3);
  EXPECT_EQ(shape.high, 0.9);
  EXPECT_EQ(shape.low, 0.4);
  EXPECT_EQ(shape.prune, 0.03);
}

TEST(DynaTreePolicyTest, OptionsChangeTheShape) {
  const DynaTreeShape shape = ShapeOf("d0=3,dmax=6,high=0.8,low=0.2,n=64,bmax=4,prune=0.05");
  EXPECT_EQ(shape.base_depth, 3);
  EXPECT_EQ(shape.max_depth, 6);
  EXPECT_EQ(shape.high, 0.8);
  EXPECT_EQ(shape.low, 0.2);
  EXPECT_EQ(shape.nodes, 64);
  EXPECT_EQ(shape.max_branches, 4);
  EXPECT_EQ(shape.prune, 0.05);
}

TEST(DynaTreePolicyTest, TheFixedTreeHasThePapersSizeUnlessSaidOtherwise) {
  const DynaTreeShape shape = ShapeOf("fixed");
  EXPECT_EQ(shape.max_depth, 5);
  EXPECT_EQ(shape.min_branches, 2);
  EXPECT_EQ(shape.nodes, 256);
  EXPECT_EQ(ShapeOf("fixed,dmax=6,bmax=3").max_depth, 6);
  EXPECT_EQ(ShapeOf("fixed,dmax=6,bmax=3").min_branches, 3);
}

TEST(DynaTreePolicyTest, RefusesOptionsThatItDoesNotKnow) {
  for (const char* argument :
       {"", "adaptive", "d0", "d0=", "d0=x", "d0=0", "d0=2.5", "d0=3,d0=4", "depth=3", "high=1.5",
        "n=5000", "fixed,high=0.5", "bmin=3,bmax=2", "low=0.9,high=0.3", "d0=9"}) {
    EXPECT_EQ(DynaTreePolicy::Parse(argument), nullptr) << argument;
  }
}

TEST(DynaTreePolicyTest, HighAcceptanceMakesItMoreAggressiveAndLowAcceptanceLess) {
  const DynaTreePolicy policy({}, /*window=*/4);
  const absl::StatusOr<Policy> unused = Policy::Parse("ar");
  const std::unique_ptr<NamedPolicyKind> own = policy.ForRequest({*unused});
  ASSERT_NE(own, nullptr);
  const DynaTreeShape& shape = static_cast<const DynaTreePolicy&>(*own).shape();
  for (int cycle = 0; cycle < 3; ++cycle) own->Observe(ChainOfNodes(4), 3);
  EXPECT_EQ(shape.base_depth, 5);  // The window is not full.
  own->Observe(ChainOfNodes(4), 3);
  EXPECT_EQ(shape.base_depth, 6);
  EXPECT_NEAR(shape.high, 0.85, 1e-9);
  for (int cycle = 0; cycle < 12; ++cycle) own->Observe(ChainOfNodes(4), 0);
  EXPECT_EQ(shape.base_depth, 3);
  EXPECT_NEAR(shape.high, 0.95, 1e-9);
  for (int cycle = 0; cycle < 400; ++cycle) own->Observe(ChainOfNodes(4), 4);
  EXPECT_EQ(shape.base_depth, shape.max_depth - 1);
  EXPECT_NEAR(shape.high, shape.low + 0.05, 1e-9);
  EXPECT_EQ(policy.shape().base_depth, 5);  // Other requests do not see it.
}

TEST(DynaTreePolicyTest, ModerateAcceptanceAndEmptyTreesChangeNothing) {
  DynaTreePolicy policy({}, /*window=*/2);
  for (int cycle = 0; cycle < 10; ++cycle) {
    policy.Observe(ChainOfNodes(10), 4);
    policy.Observe(ChainOfNodes(0), 0);
  }
  EXPECT_EQ(policy.shape().base_depth, 5);
  EXPECT_EQ(policy.shape().high, 0.9);
}

TEST(DynaTreePolicyTest, WithoutAWindowNothingIsAdjusted) {
  DynaTreePolicy policy({}, /*window=*/0);
  for (int cycle = 0; cycle < 100; ++cycle) policy.Observe(ChainOfNodes(4), 4);
  EXPECT_EQ(policy.shape().base_depth, 5);
}

}  // namespace
}  // namespace bastion
