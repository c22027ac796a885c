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

using ::bastion::testing::Awkward;
using ::bastion::testing::CurveEstimator;
using ::bastion::testing::Ladder;
using ::bastion::testing::MarginalsOf;
using ::bastion::testing::RandomMarginals;
using ::bastion::testing::TileStairs;

constexpr TokenId kRoot = 7;
constexpr TokenId kOther = 99999;

struct LookAheadTerms {
  CycleCost cost;
  const Survival* survival;
  double tokens_per_second = 0;
};

BudgetedTree Grow(const Marginals& marginals, const LookAheadTerms& terms, int max_nodes) {
  const DraftCandidates rows(marginals);
  return LookAhead(terms.cost, max_nodes, terms.tokens_per_second)
      .Grow(GrowChain(kRoot, rows, rows.max_depth()), rows, *terms.survival);
}

// Â(T_N) of the best-first trees, N = 0 … most.
std::vector<double> Lengths(const Marginals& marginals, int most) {
  const DraftTree tree = GrowBestFirst(kRoot, DraftCandidates(marginals), most);
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

TEST(LookAheadTest, TrueOptimumOnAStaircase) {
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

TEST(LookAheadTest, SeesOverTheStepThatStopsBastion) {
  // 16 rows cost 10 ms, 32 cost 12: BASTION stops before the step, the second step pays.
  const CurveEstimator stairs([](int rows) { return rows <= 16 ? 10.0 : 12.0; });
  const CycleCost cost = stairs.Cost(2, 0);
  const Survival survival;
  const Marginals marginals = MarginalsOf({std::vector<double>(32, 1.0 / 32)});
  EXPECT_EQ(GrowToSpeedupStop(kRoot, DraftCandidates(marginals), cost, 31).tree.nodes(), 15);
  EXPECT_EQ(Grow(marginals, {cost, &survival}, 31).tree.nodes(), 31);
}

// Rates by hand. One position .5 .3, draft 2 ms, verify 8, 9, 14 ms for 1, 2, 3 rows:
//   ratio   1/10 = .100   1.5/11 = .136   1.8/16 = .113   → 1 node
// At a pace of 20 tokens/s a millisecond costs .02 tokens (but plain decoding already makes 125/s,
// and the pace is never below): at .125 a millisecond the values are
//   1 − 1.25 = −.25       1.5 − 1.375 = .125              → 1 node
// At 600 tokens/s, .6 a millisecond: 1 − 6 = −5, 1.5 − 6.6 = −5.1, 1.8 − 9.6 → none.
TEST(LookAheadTest, PaceIsThePriceOfTime) {
  const CurveEstimator curve([](int rows) { return rows == 1 ? 8.0 : rows == 2 ? 9.0 : 14.0; });
  const CycleCost cost = curve.Cost(2, 0);
  const Survival survival;
  const Marginals marginals = MarginalsOf({{0.5, 0.3}});
  EXPECT_EQ(Grow(marginals, {cost, &survival, 0}, 9).tree.nodes(), 1);
  EXPECT_EQ(Grow(marginals, {cost, &survival, 20}, 9).tree.nodes(), 1);
  EXPECT_EQ(Grow(marginals, {cost, &survival, 600}, 9).tree.nodes(), 0);
}

// Where cycles differ, the ratio of each cycle alone is beaten by one price for all: cycles of
// three kinds, met equally often, at the pace that this choice itself reaches.
TEST(LookAheadTest, PaceBeatsTheRatioAndEveryFixedBudgetWhereCyclesDiffer) {
  const CurveEstimator curve([](int rows) { return 1.0 + 0.01 * rows; });
  const CycleCost cost = curve.Cost(1.5, 0.1);
  const Survival survival;
  std::mt19937 random(2);
  std::vector<Marginals> kinds;
  for (const double sharpness : {1.0, 20.0, 200.0}) {
    kinds.push_back(RandomMarginals(random, 8, 32, Awkward::kNone, sharpness));
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

TEST(LookAheadTest, EmptyTreeWhereNothingPays) {
  const CurveEstimator steep([](int rows) { return 10.0 * rows; });
  const Survival survival;
  const BudgetedTree grown = Grow(MarginalsOf({{0.3, 0.2}}), {steep.Cost(1, 0), &survival}, 100);
  EXPECT_EQ(grown.tree.nodes(), 0);
  EXPECT_EQ(grown.reason, BudgetReason::kCost);
}

TEST(LookAheadTest, ChainWinsWhenSiblingsAreNeverRight) {
  // Siblings are stated at .35 and never accepted; the spine always is.
  const Marginals marginals = MarginalsOf({{0.4, 0.35}, {0.4, 0.35}, {0.4, 0.35}, {0.4, 0.35}});
  const DraftCandidates scores(marginals);
  const DraftTree spine = GrowChain(kRoot, scores, 4);
  const DraftTree tree = GrowBestFirst(kRoot, scores, 30);
  Survival survival;
  std::vector<NodeIndex> spine_rows;
  const std::vector<PathKind> kinds = PathKinds(tree);
  for (NodeIndex i = 1; i < tree.rows(); ++i) {
    if (kinds[i] == PathKind::kSpine) spine_rows.push_back(i);
  }
  for (int i = 0; i < 50; ++i) survival.Observe(tree, spine, {spine_rows, kOther});
  const CurveEstimator linear([](int rows) { return 1.0 + 0.1 * rows; });
  const BudgetedTree grown = LookAhead(linear.Cost(0, 0), 30).Grow(spine, scores, survival);
  EXPECT_EQ(grown.tree, spine);
}

TEST(LookAheadTest, LimitsAreNamed) {
  const CurveEstimator flat([](int) { return 1.0; });
  const Survival survival;
  const LookAheadTerms terms = {flat.Cost(0, 0), &survival};
  const Marginals marginals = MarginalsOf({{0.5, 0.3}});
  EXPECT_EQ(Grow(marginals, terms, 1).reason, BudgetReason::kCap);
  EXPECT_EQ(Grow(marginals, terms, 0).reason, BudgetReason::kCap);
  EXPECT_EQ(Grow(marginals, terms, 0).tree, DraftTree(kRoot));
  EXPECT_EQ(Grow(marginals, terms, 100).reason, BudgetReason::kExhausted);
  EXPECT_EQ(Grow(Marginals(), terms, 100).tree, DraftTree(kRoot));
}

TEST(LookAheadTest, WideFansAreAskedForOnlyWhereRowsAreCheap) {
  const Survival survival;
  const CurveEstimator dear(
      [](int rows) { return 10.0 + 2.0 * rows; });  // A row: a sixth of a step.
  EXPECT_EQ(LookAhead(dear.Cost(3, 0), 64).WidestFan(64), 12);
  const CurveEstimator cheap([](int rows) { return 10.0 + 0.001 * rows; });
  EXPECT_EQ(LookAhead(cheap.Cost(3, 0), 64).WidestFan(64), 64);
  EXPECT_EQ(LookAhead(cheap.Cost(3, 0), 64).WidestFan(5), 5);
  // A step up at first, then a flat stretch: its far end counts.
  const CurveEstimator stairs([](int rows) { return rows == 1 ? 10.0 : 15.0; });
  EXPECT_EQ(LookAhead(stairs.Cost(3, 0), 64).WidestFan(64), 64);
  // Time that is worth more than plain decoding makes of it buys fewer rows.
  EXPECT_EQ(LookAhead(dear.Cost(3, 0), 64, 2 / 0.012).WidestFan(64), 6);
}

// The growth stops where even a certain path could not pay; the choice is as without that bound.
TEST(LookAheadTest, HopelessSizesAreNotGrown) {
  const CurveEstimator dear([](int rows) { return 10.0 * rows; });
  const Survival survival;
  const Marginals marginals = MarginalsOf(Ladder(4, 16, 0.6));
  const BudgetedTree grown = Grow(marginals, {dear.Cost(0, 0), &survival}, 64);
  EXPECT_EQ(grown.tree.nodes(), 0);
  EXPECT_EQ(grown.reason, BudgetReason::kCost);
}

TEST(LookAheadTest, NothingThatPaysIsCutAwayHoweverTheCostsRise) {
  std::mt19937 random(21);
  for (int draw = 0; draw < 300; ++draw) {
    std::vector<double> milliseconds = {10};
    for (int rows = 2; rows <= 64; ++rows) {
      const double step = random() % 6 == 0 ? 4.0 * (random() % 100) / 100 : 0.02 * (random() % 10);
      milliseconds.push_back(milliseconds.back() + step);
    }
    const CurveEstimator curve([&](int rows) { return milliseconds[rows - 1]; });
    const Marginals marginals = MarginalsOf(Ladder(6, 16, 0.2 + 0.002 * draw));
    const DraftCandidates rows(marginals);
    const DraftTree spine = GrowChain(kRoot, rows, rows.max_depth());
    const CycleCost cost = curve.Cost(1, 0.5);
    for (const double pace : {0.0, 120.0, 250.0}) {
      const LookAhead whole(cost, 63, pace), cut(cost, 63, pace, /*underestimate=*/1);
      EXPECT_EQ(cut.Grow(spine, rows, Survival()).tree, whole.Grow(spine, rows, Survival()).tree)
          << draw << " " << pace;
    }
  }
}

}  // namespace
}  // namespace bastion
