#include "orchestrator/policy/bastion_policy.h"

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "orchestrator/tree/best_first.h"
#include "tests/support/borrow.h"
#include "tests/support/curve_estimator.h"
#include "tests/support/linear_costs.h"
#include "tests/support/random_marginals.h"

namespace bastion {
namespace {

using ::bastion::testing::CurveEstimator;
using ::bastion::testing::EdgeCase;
using ::bastion::testing::MarginalsOf;
using ::bastion::testing::RandomMarginals;
using ::bastion::testing::TileStairs;

constexpr TokenId kRoot = 7;

GrownTree Grow(const Marginals& marginals, const CycleCost& cost, int max_nodes) {
  return GrowToSpeedupStop(kRoot, testing::Borrow(DraftCandidates(marginals)), cost,
                           {.nodes = max_nodes, .depth = 100});
}

// One position with probabilities .5, .3, .1 and .05. The draft takes 2 ms, the overhead 1 ms and
// the verify 7 ms plus 1 ms per row: Ĉ(N) = 11 + N.
//   N     1          2          3           4
//   Â/Ĉ   1.5/12     1.8/13     1.9/14      1.95/15
//         .1250      .1385      .1357       .1300      Â/Ĉ first decreases at 3, so N = 2.
TEST(BastionPolicyTest, StopsBeforeTheFirstDecrease) {
  const CurveEstimator curve([](int rows) { return 7.0 + rows; });
  const GrownTree grown =
      Grow(MarginalsOf({{0.5, 0.3, 0.1, 0.05}}), curve.Cost(2, 1), /*max_nodes=*/100);
  EXPECT_EQ(grown.tree.nodes(), 2);
  EXPECT_EQ(grown.reason, BudgetReason::kCost);
}

TEST(BastionPolicyTest, AlwaysAddsTheFirstNode) {
  // The first node costs 20 times a plain step and yields a thousandth of a token.
  const CurveEstimator curve([](int rows) { return rows == 1 ? 1.0 : 10.0 * rows; });
  const GrownTree grown = Grow(MarginalsOf({{0.001, 0.001}}), curve.Cost(0, 0), 100);
  EXPECT_EQ(grown.tree.nodes(), 1);
}

TEST(BastionPolicyTest, StopsIfTheSpeedupStaysEqual) {
  // Â = 1.5, 2 and Ĉ = 1.5, 2: the ratio does not increase at N = 2.
  const CurveEstimator curve([](int rows) { return 1.0 + (rows - 1) * 0.5; });
  EXPECT_EQ(Grow(MarginalsOf({{0.5, 0.5}}), curve.Cost(0, 0), 100).tree.nodes(), 1);
}

TEST(BastionPolicyTest, ReportsWhyTheTreeStoppedGrowing) {
  const CurveEstimator flat([](int) { return 1.0; });
  const Marginals marginals = MarginalsOf({{0.5, 0.3}});
  EXPECT_EQ(Grow(marginals, flat.Cost(0, 0), 1).reason, BudgetReason::kRows);
  EXPECT_EQ(Grow(marginals, flat.Cost(0, 0), 0).reason, BudgetReason::kRows);
  EXPECT_EQ(Grow(marginals, flat.Cost(0, 0), 0).tree.nodes(), 0);
  EXPECT_EQ(Grow(marginals, flat.Cost(0, 0), 100).reason, BudgetReason::kExhausted);
  EXPECT_EQ(Grow(Marginals(), flat.Cost(0, 0), 100).reason, BudgetReason::kExhausted);
}

// `argument`'s tree on costs that increase by rows. `draft` may have more candidates than the
// policy asks for.
GrownTree GrowTree(const std::string& argument, const Marginals& draft, const TreeLimits& limits) {
  const auto policy = BastionPolicy::Parse(argument);
  const CostModel costs = testing::LinearCosts();
  return dynamic_cast<const BastionPolicy&>(*policy).Grow(
      kRoot, testing::Borrow(DraftCandidates(draft)), limits, draft.positions, costs);
}

TEST(BastionPolicyTest, ParsesTheEstimatorAndTheOptions) {
  const auto options = [](std::optional<std::string_view> argument) {
    const auto policy = BastionPolicy::Parse(argument);
    EXPECT_NE(policy, nullptr) << argument.value_or("none");
    return dynamic_cast<const BastionPolicy&>(*policy).options();
  };
  using Kind = PaperEstimator::Kind;
  EXPECT_EQ(options(std::nullopt).estimator, (PaperEstimator{Kind::kStatic, 10}));
  EXPECT_EQ(options(std::nullopt).candidates, 64);
  EXPECT_EQ(options(std::nullopt).nodes, std::nullopt);
  EXPECT_EQ(options("static").estimator, (PaperEstimator{Kind::kStatic, 10}));
  EXPECT_EQ(options("ema").estimator, (PaperEstimator{Kind::kEma, 10}));
  EXPECT_EQ(options("ema-calib,alpha=0.29").estimator, (PaperEstimator{Kind::kEmaCalib, 29}));
  EXPECT_EQ(options("static,alpha=0.1,k=64,n=512").nodes, 512);
  EXPECT_EQ(options("ema,n=7,k=5").candidates, 5);
  EXPECT_EQ(options("k=1024").candidates, 1024);
  EXPECT_EQ(options("alpha=1").estimator.alpha_percent, 100);
  for (const char* argument :
       {"",        "Static",     "ema+calib",    "oracle",      "ema,static", "static,",
        "alpha=0", "alpha=1.01", "alpha=0.105",  "alpha=0.001", "alpha=nan",  "alpha=",
        "k=0",     "k=4097",     "k=1.5",        "n=0",         "n=4097",     "n=2,n=2",
        "x=1",     "ema,alpha",  "ema alpha=0.1"}) {
    EXPECT_EQ(BastionPolicy::Parse(argument), nullptr) << argument;
  }
}

TEST(BastionPolicyTest, NMaxAndKLimitTheTree) {
  std::mt19937 random(3);
  const Marginals marginals = RandomMarginals(random, 15, 64, EdgeCase::kNone, 4.0);
  const TreeLimits wide = {.context = 100, .nodes = 127, .depth = 15};
  const GrownTree whole = GrowTree("static", marginals, wide);
  ASSERT_GT(whole.tree.nodes(), 8);
  EXPECT_EQ(whole.reason, BudgetReason::kCost);
  const GrownTree eight = GrowTree("n=8", marginals, wide);
  EXPECT_EQ(eight.tree.nodes(), 8);
  EXPECT_EQ(eight.reason, BudgetReason::kPolicy);
  // The forward has room for less than n names.
  const GrownTree four = GrowTree("n=8", marginals, {.context = 100, .nodes = 4, .depth = 15});
  EXPECT_EQ(four.tree.nodes(), 4);
  EXPECT_EQ(four.reason, BudgetReason::kRows);
  const GrownTree narrow = GrowTree("k=1", marginals, wide);
  EXPECT_TRUE(narrow.tree.IsChain());
  EXPECT_GT(narrow.tree.nodes(), 0);
  // Every list of K candidates has its K most probable ones.
  Marginals three = marginals;
  three.candidates = 3;
  three.tokens.clear();
  three.log_probs.clear();
  for (int p = 0; p < 15; ++p) {
    for (int r = 0; r < 3; ++r) {
      three.tokens.push_back(marginals.token(p, r));
      three.log_probs.push_back(marginals.log_prob(p, r));
    }
  }
  EXPECT_EQ(GrowTree("k=3", marginals, wide).tree, GrowTree("k=64", three, wide).tree);
}

// Proposition 2.4: with a convex cost, the tree before the first decrease is the global maximum.
TEST(BastionPolicyTest, FindsTheGlobalMaximumOfAConvexCost) {
  const CurveEstimator convex([](int rows) { return 5.0 + 0.1 * rows + 0.004 * rows * rows; });
  const CycleCost cost = convex.Cost(2, 0.5);
  std::mt19937 random(1);
  for (int draw = 0; draw < 50; ++draw) {
    const Marginals marginals = RandomMarginals(random, 8, 16, EdgeCase::kNone, 1 + draw % 12);
    const DraftTree all = GrowBestFirst(kRoot, testing::Borrow(DraftCandidates(marginals)), 127);
    double length = 1;
    double best = 0;
    int best_nodes = 0;
    for (int n = 1; n <= all.nodes(); ++n) {
      length += std::exp(all.log_score(NodeIndex::Of(n)));
      if (length / cost.Seconds(n) > best) {
        best = length / cost.Seconds(n);
        best_nodes = n;
      }
    }
    EXPECT_EQ(Grow(marginals, cost, 127).tree.nodes(), best_nodes);
  }
}

// On a staircase, the tree before the first decrease may be only a local maximum. This is the
// reason for the planner's comparison of all totals.
TEST(BastionPolicyTest, StopsAtTheFirstStepOfAStaircase) {
  const CurveEstimator stairs(TileStairs);
  std::mt19937 random(2);
  const Marginals marginals = RandomMarginals(random, 15, 64, EdgeCase::kNone, 40.0);
  EXPECT_LE(Grow(marginals, stairs.Cost(0, 0), 127).tree.nodes(), 15);
}

}  // namespace
}  // namespace bastion
