#include "orchestrator/policy/lookahead.h"

#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "orchestrator/policy/speedup_stop.h"
#include "orchestrator/tree/best_first.h"
#include "orchestrator/tree/chain.h"
#include "tests/orchestrator/policy/curve_estimator.h"
#include "tests/support/random_marginals.h"

namespace bastion {
namespace {

using ::bastion::testing::CurveEstimator;
using ::bastion::testing::EdgeCase;
using ::bastion::testing::Ladder;
using ::bastion::testing::MarginalsOf;
using ::bastion::testing::RandomMarginals;
using ::bastion::testing::TileStairs;

constexpr TokenId kRoot = 7;
constexpr TokenId kOther = 99999;  // A token that is not a candidate.

struct LookAheadInputs {
  CycleCost cost;
  const Survival* survival;
  double tokens_per_second = 0;
};

BudgetedTree Grow(const Marginals& marginals, const LookAheadInputs& inputs, int max_nodes) {
  const DraftCandidates candidates(marginals);
  return LookAhead(inputs.cost, max_nodes, inputs.tokens_per_second)
      .Grow(GrowChain(kRoot, candidates, candidates.max_depth()), candidates, *inputs.survival);
}

// Â(T_N) of the best-first trees of N = 0, 1, … max_nodes nodes.
std::vector<double> Lengths(const Marginals& marginals, int max_nodes) {
  const DraftTree tree = GrowBestFirst(kRoot, DraftCandidates(marginals), max_nodes);
  std::vector<double> lengths = {1.0};
  for (int n = 1; n <= tree.nodes(); ++n) {
    lengths.push_back(lengths.back() + std::exp(static_cast<double>(tree.log_score(n))));
  }
  return lengths;
}

int BestRatio(const std::vector<double>& lengths, const CycleCost& cost) {
  int best = 0;
  for (int n = 1; n < static_cast<int>(lengths.size()); ++n) {
    if (lengths[n] / cost.Seconds(n) > lengths[best] / cost.Seconds(best)) best = n;
  }
  return best;
}

TEST(LookAheadTest, FindsTheOptimumOnAStaircase) {
  const CurveEstimator stairs(TileStairs);
  const Survival survival;
  int beyond_the_first_step = 0;
  for (int draw = 0; draw < 100; ++draw) {
    const Marginals marginals = MarginalsOf(Ladder(8, 16, 0.2 + 0.007 * draw));
    const CycleCost cost = stairs.Cost(1.5 * (draw % 20), 1);
    const int best = BestRatio(Lengths(marginals, 127), cost);
    EXPECT_EQ(Grow(marginals, {cost, &survival}, 127).tree.nodes(), best);
    beyond_the_first_step += best > 15 ? 1 : 0;
  }
  EXPECT_GT(beyond_the_first_step, 10);
}

TEST(LookAheadTest, LooksBeyondTheStepAtWhichBastionStops) {
  // Up to 16 rows take 10 ms, more rows take 12 ms. The stop rule of the policy `bastion` stops
  // before that step, but the nodes after the step are worth its cost.
  const CurveEstimator stairs([](int rows) { return rows <= 16 ? 10.0 : 12.0; });
  const CycleCost cost = stairs.Cost(2, 0);
  const Survival survival;
  const Marginals marginals = MarginalsOf({std::vector<double>(32, 1.0 / 32)});
  EXPECT_EQ(GrowToSpeedupStop(kRoot, DraftCandidates(marginals), cost, 31).tree.nodes(), 15);
  EXPECT_EQ(Grow(marginals, {cost, &survival}, 31).tree.nodes(), 31);
}

// One position with probabilities .5 and .3; the draft takes 2 ms; the verify takes 8, 9, 14 ms
// for 1, 2, 3 rows.
//   Ratio: 1/10 = .100, 1.5/11 = .136, 1.8/16 = .113, so 1 node.
//   Pace 20 tokens/s: plain decoding reaches 125 tokens/s, and the pace used is never lower. A
//   millisecond costs .125 tokens: 1 − 1.25 = −.25, 1.5 − 1.375 = .125, so 1 node.
//   Pace 600 tokens/s: a millisecond costs .6 tokens: 1 − 6 = −5, 1.5 − 6.6 = −5.1, 1.8 − 9.6 =
//   −7.8, so no node.
TEST(LookAheadTest, PaceIsThePriceOfTime) {
  const CurveEstimator curve([](int rows) { return rows == 1 ? 8.0 : rows == 2 ? 9.0 : 14.0; });
  const CycleCost cost = curve.Cost(2, 0);
  const Survival survival;
  const Marginals marginals = MarginalsOf({{0.5, 0.3}});
  EXPECT_EQ(Grow(marginals, {cost, &survival, 0}, 9).tree.nodes(), 1);
  EXPECT_EQ(Grow(marginals, {cost, &survival, 20}, 9).tree.nodes(), 1);
  EXPECT_EQ(Grow(marginals, {cost, &survival, 600}, 9).tree.nodes(), 0);
}

// If cycles differ, one price of time for all cycles beats the best ratio of each cycle. There are
// three kinds of cycles, equally frequent. The pace equals the rate that the resulting trees reach.
TEST(LookAheadTest, PaceBeatsTheRatioAndEveryFixedBudgetIfCyclesDiffer) {
  const CurveEstimator curve([](int rows) { return 1.0 + 0.01 * rows; });
  const CycleCost cost = curve.Cost(1.5, 0.1);
  const Survival survival;
  std::mt19937 random(2);
  std::vector<Marginals> kinds;
  for (const double sharpness : {1.0, 20.0, 200.0}) {
    kinds.push_back(RandomMarginals(random, 8, 32, EdgeCase::kNone, sharpness));
  }
  const auto rate_at = [&](double pace) {
    double tokens = 0;
    double seconds = 0;
    for (const Marginals& kind : kinds) {
      const BudgetedTree grown = Grow(kind, {cost, &survival, pace}, 127);
      tokens += grown.tree.ExpectedCommittedLength();
      seconds += cost.Seconds(grown.tree.nodes());
    }
    return tokens / seconds;
  };
  const double ratio_rate = rate_at(0);
  double pace = ratio_rate;
  for (int i = 0; i < 20; ++i) pace = rate_at(pace);
  EXPECT_GT(pace, ratio_rate * 1.001);
  for (int n = 0; n <= 127; ++n) {
    double tokens = 0;
    for (const Marginals& kind : kinds) tokens += Lengths(kind, n).back();
    EXPECT_GE(pace, tokens / (3 * cost.Seconds(n)) - 1e-6) << n << " nodes";
  }
}

TEST(LookAheadTest, ReturnsTheRootAloneIfNoNodeIsWorthItsCost) {
  const CurveEstimator steep([](int rows) { return 10.0 * rows; });
  const Survival survival;
  const BudgetedTree grown = Grow(MarginalsOf({{0.3, 0.2}}), {steep.Cost(1, 0), &survival}, 100);
  EXPECT_EQ(grown.tree.nodes(), 0);
  EXPECT_EQ(grown.reason, BudgetReason::kCost);
}

TEST(LookAheadTest, TheChainWinsIfSiblingsAreNeverAccepted) {
  // Siblings have probability .35 and are never accepted. The spine is always accepted.
  const Marginals marginals = MarginalsOf({{0.4, 0.35}, {0.4, 0.35}, {0.4, 0.35}, {0.4, 0.35}});
  const DraftCandidates candidates(marginals);
  const DraftTree spine = GrowChain(kRoot, candidates, 4);
  const DraftTree tree = GrowBestFirst(kRoot, candidates, 30);
  Survival survival;
  std::vector<NodeIndex> spine_nodes;
  const std::vector<PathKind> kinds = PathKinds(tree);
  for (NodeIndex i = 1; i < tree.rows(); ++i) {
    if (kinds[i] == PathKind::kSpine) spine_nodes.push_back(i);
  }
  for (int i = 0; i < 50; ++i) survival.Observe(tree, spine, {spine_nodes, kOther});
  const CurveEstimator linear([](int rows) { return 1.0 + 0.1 * rows; });
  const BudgetedTree grown = LookAhead(linear.Cost(0, 0), 30).Grow(spine, candidates, survival);
  EXPECT_EQ(grown.tree, spine);
}

TEST(LookAheadTest, ReportsWhyTheTreeStoppedGrowing) {
  const CurveEstimator flat([](int) { return 1.0; });
  const Survival survival;
  const LookAheadInputs inputs = {flat.Cost(0, 0), &survival};
  const Marginals marginals = MarginalsOf({{0.5, 0.3}});
  EXPECT_EQ(Grow(marginals, inputs, 1).reason, BudgetReason::kCap);
  EXPECT_EQ(Grow(marginals, inputs, 0).reason, BudgetReason::kCap);
  EXPECT_EQ(Grow(marginals, inputs, 0).tree, DraftTree(kRoot));
  EXPECT_EQ(Grow(marginals, inputs, 100).reason, BudgetReason::kExhausted);
  EXPECT_EQ(Grow(Marginals(), inputs, 100).tree, DraftTree(kRoot));
}

TEST(LookAheadTest, ManyChildrenAreUsefulOnlyIfRowsAreCheap) {
  // A row costs a sixth of a plain step.
  const CurveEstimator expensive([](int rows) { return 10.0 + 2.0 * rows; });
  EXPECT_EQ(LookAhead(expensive.Cost(3, 0), 64).MaxUsefulChildren(64), 12);
  const CurveEstimator cheap([](int rows) { return 10.0 + 0.001 * rows; });
  EXPECT_EQ(LookAhead(cheap.Cost(3, 0), 64).MaxUsefulChildren(64), 64);
  EXPECT_EQ(LookAhead(cheap.Cost(3, 0), 64).MaxUsefulChildren(5), 5);
  // After one step the cost is flat, so the cost per node is lowest at 64 nodes.
  const CurveEstimator stairs([](int rows) { return rows == 1 ? 10.0 : 15.0; });
  EXPECT_EQ(LookAhead(stairs.Cost(3, 0), 64).MaxUsefulChildren(64), 64);
  // At twice the pace of plain decoding, half as many children are worth their cost.
  EXPECT_EQ(LookAhead(expensive.Cost(3, 0), 64, 2 / 0.012).MaxUsefulChildren(64), 6);
}

TEST(LookAheadTest, ReturnsTheRootAloneIfEvenACertainPathIsNotWorthItsCost) {
  const CurveEstimator expensive([](int rows) { return 10.0 * rows; });
  const Survival survival;
  const Marginals marginals = MarginalsOf(Ladder(4, 16, 0.6));
  const BudgetedTree grown = Grow(marginals, {expensive.Cost(0, 0), &survival}, 64);
  EXPECT_EQ(grown.tree.nodes(), 0);
  EXPECT_EQ(grown.reason, BudgetReason::kCost);
}

TEST(LookAheadTest, MinScoresDoNotChangeTheBestTree) {
  std::mt19937 random(21);
  for (int draw = 0; draw < 300; ++draw) {
    std::vector<double> milliseconds = {10};
    for (int rows = 2; rows <= 64; ++rows) {
      const double step = random() % 6 == 0 ? 4.0 * (random() % 100) / 100 : 0.02 * (random() % 10);
      milliseconds.push_back(milliseconds.back() + step);
    }
    const CurveEstimator curve([&](int rows) { return milliseconds[rows - 1]; });
    const Marginals marginals = MarginalsOf(Ladder(6, 16, 0.2 + 0.002 * draw));
    const DraftCandidates candidates(marginals);
    const DraftTree spine = GrowChain(kRoot, candidates, candidates.max_depth());
    const CycleCost cost = curve.Cost(1, 0.5);
    for (const double pace : {0.0, 120.0, 250.0}) {
      const LookAhead whole(cost, 63, pace), cut(cost, 63, pace, /*underestimate=*/1);
      EXPECT_EQ(cut.Grow(spine, candidates, Survival()).tree,
                whole.Grow(spine, candidates, Survival()).tree)
          << draw << " " << pace;
    }
  }
}

}  // namespace
}  // namespace bastion
