#include "orchestrator/policy/survival.h"

#include <cmath>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "orchestrator/tree/best_first.h"
#include "orchestrator/tree/chain.h"
#include "tests/support/random_marginals.h"

namespace bastion {
namespace {

using ::bastion::testing::MarginalsOf;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Pointwise;

constexpr TokenId kRoot = 7;
constexpr TokenId kOther = 99999;

// Positions .8 .15 | .5 .4. Best-first order: a .8 (1), ax .4 (2), ay .32 (3), b .15 (4), bx .075
// (5), by .06 (6).
Marginals TwoByTwo() { return MarginalsOf({{0.8, 0.15}, {0.5, 0.4}}); }

DraftTree TreeOf(const Marginals& marginals, int nodes) {
  return GrowBestFirst(kRoot, DraftCandidates(marginals), nodes);
}
DraftTree SpineOf(const Marginals& marginals) {
  return GrowChain(kRoot, DraftCandidates(marginals), marginals.positions);
}

TEST(PathKindsTest, SpineSiblingsAndBeyond) {
  EXPECT_THAT(PathKinds(TreeOf(TwoByTwo(), 6)),
              ElementsAre(PathKind::kSpine, PathKind::kSpine, PathKind::kSpine, PathKind::kSibling,
                          PathKind::kSibling, PathKind::kBeyond, PathKind::kBeyond));
  EXPECT_THAT(PathKinds(DraftTree(kRoot)), ElementsAre(PathKind::kSpine));
}

TEST(SurvivalTest, StartsByBelievingTheDrafter) {
  const Survival survival;
  const DraftTree tree = TreeOf(TwoByTwo(), 6);
  EXPECT_THAT(survival.Values(tree),
              Pointwise(DoubleNear(1e-6), {1.0, 0.8, 0.4, 0.32, 0.15, 0.075, 0.06}));
}

// One miss of the token with q = .8 at depth 1: predicted .8, accepted 0, m = 1:
// factor(1) = 1 / 1.8 = .5556, and the depths below inherit it; the other kinds keep 1.
TEST(SurvivalTest, OneMissByHand) {
  Survival survival;
  survival.Observe(TreeOf(TwoByTwo(), 1), SpineOf(TwoByTwo()), {{}, kOther});
  EXPECT_NEAR(survival.Factor(PathKind::kSpine, 1), 1 / 1.8, 1e-6);
  EXPECT_NEAR(survival.Factor(PathKind::kSpine, 9), 1 / 1.8, 1e-6);
  EXPECT_EQ(survival.Factor(PathKind::kSibling, 1), 1.0);
  EXPECT_EQ(survival.Factor(PathKind::kBeyond, 2), 1.0);
}

// The sibling b (q .15) is accepted, then nothing: spine depth 1 missed (1 / 1.8), sibling depth 1
// hit: (1 + 1) / (.15 + 1). Nodes below a were not put to the test; bx and by below b were:
// beyond depth 2: 1 / (.9 + 1).
TEST(SurvivalTest, KindsAndDepthsByHand) {
  Survival survival;
  survival.Observe(TreeOf(TwoByTwo(), 6), SpineOf(TwoByTwo()), {{4}, kOther});
  EXPECT_NEAR(survival.Factor(PathKind::kSpine, 1), 1 / 1.8, 1e-6);
  EXPECT_NEAR(survival.Factor(PathKind::kSpine, 2), 1 / 1.8, 1e-6);
  EXPECT_NEAR(survival.Factor(PathKind::kSibling, 1), 2 / 1.15, 1e-6);
  EXPECT_NEAR(survival.Factor(PathKind::kSibling, 2), 2 / 1.15, 1e-6);
  EXPECT_NEAR(survival.Factor(PathKind::kBeyond, 2), 1 / 1.9, 1e-6);
}

TEST(SurvivalTest, EvidenceFadesByOneSixtyFourthACycle) {
  Survival survival;
  survival.Observe(TreeOf(TwoByTwo(), 1), SpineOf(TwoByTwo()), {{}, kOther});
  for (int i = 0; i < Survival::kForgetTogether; ++i) survival.Forget();
  const double faded = 0.8 * std::pow(63.0 / 64, Survival::kForgetTogether);
  EXPECT_NEAR(survival.Factor(PathKind::kSpine, 1), 1 / (faded + 1), 1e-6);
  for (int i = 0; i < 2000; ++i) survival.Forget();
  EXPECT_NEAR(survival.Factor(PathKind::kSpine, 1), 1.0, 1e-6);
}

TEST(SurvivalTest, RootAloneTeachesWhetherTheDrafterWasRight) {
  const DraftTree root(kRoot);
  Survival right;
  Survival wrong;
  right.Observe(root, SpineOf(TwoByTwo()), {{}, 0});  // Token 0 is the top one of position 1.
  wrong.Observe(root, SpineOf(TwoByTwo()), {{}, 1});
  EXPECT_NEAR(right.Factor(PathKind::kSpine, 1), 2 / 1.8, 1e-6);
  EXPECT_NEAR(wrong.Factor(PathKind::kSpine, 1), 1 / 1.8, 1e-6);
}

TEST(SurvivalTest, NextTokenTellsAboutOneDepthBeyondTheTree) {
  // The tree is a alone, accepted; next is x (token 100): a hit at depth 2 that was not verified.
  Survival survival;
  survival.Observe(TreeOf(TwoByTwo(), 1), SpineOf(TwoByTwo()), {{1}, 100});
  EXPECT_NEAR(survival.Factor(PathKind::kSpine, 1), 2 / 1.8, 1e-6);
  EXPECT_NEAR(survival.Factor(PathKind::kSpine, 2), (1 + 2 / 1.8) / 1.5, 1e-6);
}

TEST(SurvivalTest, ValueNeverExceedsTheParents) {
  Survival survival;
  for (int i = 0; i < 100; ++i) {  // Always right, though it says .8 and .5.
    survival.Observe(TreeOf(TwoByTwo(), 2), SpineOf(TwoByTwo()), {{1, 2}, kOther});
  }
  EXPECT_THAT(survival.Values(TreeOf(TwoByTwo(), 2)), Pointwise(DoubleNear(0.03), {1.0, 1.0, 1.0}));
  for (const double value : survival.Values(TreeOf(TwoByTwo(), 6))) EXPECT_LE(value, 1.0);
}

TEST(SurvivalTest, DrafterThatIsNeverRightIsSoonNotBelieved) {
  const Marginals sure = MarginalsOf({{0.95, 0.04}, {0.95, 0.04}});
  Survival survival;
  for (int i = 0; i < 20; ++i) survival.Observe(TreeOf(sure, 3), SpineOf(sure), {{}, kOther});
  EXPECT_LT(survival.Values(TreeOf(sure, 1))[1], 0.12);
  for (int i = 0; i < 2000; ++i) survival.Observe(TreeOf(sure, 3), SpineOf(sure), {{}, kOther});
  EXPECT_GE(survival.Factor(PathKind::kSpine, 1), Survival::kLeast);
}

TEST(SurvivalTest, ConvergesToTheTrueRates) {
  // Says .5 everywhere on the spine; in truth the first token is right with .9, the second with
  // .25. The prior of mass 1 against 32 of evidence pulls the first from .9 to .5·(57.6 + 1)/(32 +
  // 1), .888, on average.
  const Marginals marginals = MarginalsOf({{0.5, 0.0}, {0.5, 0.0}});
  std::mt19937 random(1);
  std::bernoulli_distribution first(0.9);
  std::bernoulli_distribution second(0.25);
  Survival survival;
  double sum1 = 0;
  double sum2 = 0;
  constexpr int kCycles = 4000;
  for (int i = 0; i < kCycles; ++i) {
    Acceptance acceptance{{}, kOther};
    if (first(random)) acceptance.path.push_back(1);
    if (!acceptance.path.empty() && second(random)) acceptance.path.push_back(2);
    survival.Observe(TreeOf(marginals, 2), SpineOf(marginals), acceptance);
    const std::vector<double> values = survival.Values(TreeOf(marginals, 2));
    sum1 += values[1] / kCycles;
    sum2 += values[2] / kCycles;
  }
  EXPECT_NEAR(sum1, 0.888, 0.02);
  EXPECT_NEAR(sum2, 0.888 * 0.25, 0.04);
}

TEST(SurvivalTest, PathsDeeperThanTheTableShareTheLastFactor) {
  std::vector<std::vector<double>> rows(40, {0.9});
  const Marginals deep = MarginalsOf(rows);
  Survival survival;
  survival.Observe(SpineOf(deep), SpineOf(deep), {{}, kOther});
  EXPECT_EQ(survival.Values(SpineOf(deep)).size(), 41u);
  EXPECT_EQ(survival.Factor(PathKind::kSpine, 40),
            survival.Factor(PathKind::kSpine, Survival::kMaxDepth));
}

TEST(SurvivalTest, ATreeThatWasNotVerifiedIsJudgedAsFarAsOthersSettledIt) {
  const Marginals marginals = MarginalsOf({{0.5, 0.4}, {0.5, 0.4}, {0.5, 0.4}, {0.5, 0.4}});
  const DraftTree tree = TreeOf(marginals, 20);
  const DraftTree spine = SpineOf(marginals);
  // What the target wrote, all of it known: the same as having verified the tree.
  for (const std::vector<TokenId>& text :
       {std::vector<TokenId>{0, 100, 777}, {1, 100, 777}, {777}, {0, 101, 777}}) {
    Acceptance acceptance;
    NodeIndex tip = 0;
    for (NodeIndex i = 1; i < tree.rows(); ++i) {
      if (tree.parent(i) != tip || tree.token(i) != text[acceptance.path.size()]) continue;
      acceptance.path.push_back(tip = i);
    }
    acceptance.next = text[acceptance.path.size()];
    ASSERT_EQ(acceptance.path.size() + 1, text.size());
    Survival verified, told;
    verified.Observe(tree, spine, acceptance);
    told.ObserveSettled(tree, spine, text);
    for (int depth = 1; depth <= 4; ++depth) {
      for (const PathKind kind : {PathKind::kSpine, PathKind::kSibling, PathKind::kBeyond}) {
        EXPECT_EQ(told.Factor(kind, depth), verified.Factor(kind, depth)) << depth;
      }
    }
  }
}

TEST(SurvivalTest, NothingIsLearnedBeyondWhatIsSettled) {
  const Marginals marginals = MarginalsOf({{0.5, 0.4}, {0.5, 0.4}, {0.5, 0.4}});
  Survival survival;
  survival.ObserveSettled(TreeOf(marginals, 12), SpineOf(marginals), {0});
  EXPECT_GT(survival.Factor(PathKind::kSpine, 1), 1);
  // Depth 2 has no evidence of its own: it behaves like the one above.
  EXPECT_EQ(survival.Factor(PathKind::kSpine, 2), survival.Factor(PathKind::kSpine, 1));
  EXPECT_EQ(survival.Factor(PathKind::kBeyond, 2), 1);
}

}  // namespace
}  // namespace bastion
