#include "orchestrator/policy/tree_limits.h"

#include "gtest/gtest.h"

namespace bastion {
namespace {

TEST(TreeLimitsTest, TheTightestLimitApplies) {
  TargetInfo target;
  target.max_rows = 128;
  target.max_context = 1000;
  const TreeLimits limits = LimitsFor(target, 100, 50, std::nullopt);
  EXPECT_EQ(limits.context, 100);
  EXPECT_EQ(limits.nodes, 127);  // 128 rows include the root.
  EXPECT_EQ(limits.depth, 49);   // The last of the 50 tokens is the target's next choice.
  EXPECT_EQ(limits.reason, BudgetReason::kRows);
  EXPECT_EQ(LimitsFor(target, 100, 50, 16).nodes, 16);
  EXPECT_EQ(LimitsFor(target, 100, 50, 16).depth, 16);
  EXPECT_EQ(LimitsFor(target, 100, 50, 16).reason, BudgetReason::kRequestLimit);
  EXPECT_EQ(LimitsFor(target, 100, 50, 0).nodes, 0);
  EXPECT_EQ(LimitsFor(target, 990, 50, std::nullopt).nodes, 9);
  EXPECT_EQ(LimitsFor(target, 990, 50, 16).reason, BudgetReason::kLength);
  EXPECT_EQ(LimitsFor(target, 1000, 50, std::nullopt).nodes, 0);
  EXPECT_EQ(LimitsFor(target, 1001, 50, std::nullopt).nodes, 0);
  EXPECT_EQ(LimitsFor(target, 100, 1, std::nullopt).depth, 0);
  EXPECT_EQ(LimitsFor(target, 100, 1, std::nullopt).reason, BudgetReason::kLength);
  EXPECT_EQ(LimitsFor(target, 100, 0, -3).nodes, 0);
}

TEST(TreeLimitsTest, TheServersLimitAppliesToEveryRequest) {
  TargetInfo target;
  target.max_rows = 512;
  target.max_context = 1000;
  const auto limits = [&](std::optional<int> max_nodes, int node_cap) {
    return LimitsFor(target, 0, 1000, max_nodes, node_cap);
  };
  EXPECT_EQ(limits(std::nullopt, 64).nodes, 64);
  EXPECT_EQ(limits(std::nullopt, 64).reason, BudgetReason::kServerLimit);
  EXPECT_EQ(limits(512, 64).nodes, 64);
  EXPECT_EQ(limits(512, 64).reason, BudgetReason::kServerLimit);
  EXPECT_EQ(limits(16, 64).nodes, 16);
  EXPECT_EQ(limits(16, 64).reason, BudgetReason::kRequestLimit);
  EXPECT_EQ(limits(std::nullopt, 0).nodes, 0);
}

}  // namespace
}  // namespace bastion
