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
constexpr TokenId kOther = 99999;  // A token that is not a candidate.

// Tokens a and b with probabilities .8 and .15, then x and y with .5 and .4. Best-first order: a .8
// (1), ax .4 (2), ay .32 (3), b .15 (4), bx .075 (5), by .06 (6).
Marginals TwoByTwo() { return MarginalsOf({{0.8, 0.15}, {0.5, 0.4}}); }

DraftTree TreeOf(const Marginals& marginals, int nodes) {
  return GrowBestFirst(kRoot, DraftCandidates(marginals), nodes);
}
DraftTree SpineOf(const Marginals& marginals) {
  return GrowChain(kRoot, DraftCandidates(marginals), marginals.positions);
}

TEST(PathKindsTest, DistinguishesSpineSiblingsAndDeeperNodes) {
  EXPECT_THAT(PathKinds(TreeOf(TwoByTwo(), 6)),
              ElementsAre(PathKind::kSpine, PathKind::kSpine, PathKind::kSpine, PathKind::kSibling,
                          PathKind::kSibling, PathKind::kBeyond, PathKind::kBeyond));
  EXPECT_THAT(PathKinds(DraftTree(kRoot)), ElementsAre(PathKind::kSpine));
}

TEST(SurvivalTest, StartsWithTheDraftersProbabilities) {
  const Survival survival;
  const DraftTree tree = TreeOf(TwoByTwo(), 6);
  EXPECT_THAT(survival.AcceptanceProbabilities(tree),
              Pointwise(DoubleNear(1e-6), {1.0, 0.8, 0.4, 0.32, 0.15, 0.075, 0.06}));
}

// One miss of the token with q = .8 at depth 1. Predicted .8, accepted 0, m = 1, so
// factor(1) = 1 / 1.8 = .5556. Deeper levels inherit it; the other kinds keep 1.
TEST(SurvivalTest, AMissLowersTheFactorsOfItsKind) {
  Survival survival;
  survival.Observe(TreeOf(TwoByTwo(), 1), SpineOf(TwoByTwo()), {{}, kOther});
  EXPECT_NEAR(survival.Factor(PathKind::kSpine, 1), 1 / 1.8, 1e-6);
  EXPECT_NEAR(survival.Factor(PathKind::kSpine, 9), 1 / 1.8, 1e-6);
  EXPECT_EQ(survival.Factor(PathKind::kSibling, 1), 1.0);
  EXPECT_EQ(survival.Factor(PathKind::kBeyond, 2), 1.0);
}

// The sibling b (q = .15) is accepted, then nothing. Spine depth 1 is a miss: 1 / 1.8. Sibling
// depth 1 is a hit: (1 + 1) / (.15 + 1). The nodes below a were not tested. bx and by below b were
// missed, so depth 2 beyond the siblings has 1 / (.9 + 1).
TEST(SurvivalTest, KindsAndDepthsHaveSeparateFactors) {
  Survival survival;
  survival.Observe(TreeOf(TwoByTwo(), 6), SpineOf(TwoByTwo()), {{4}, kOther});
  EXPECT_NEAR(survival.Factor(PathKind::kSpine, 1), 1 / 1.8, 1e-6);
  EXPECT_NEAR(survival.Factor(PathKind::kSpine, 2), 1 / 1.8, 1e-6);
  EXPECT_NEAR(survival.Factor(PathKind::kSibling, 1), 2 / 1.15, 1e-6);
  EXPECT_NEAR(survival.Factor(PathKind::kSibling, 2), 2 / 1.15, 1e-6);
  EXPECT_NEAR(survival.Factor(PathKind::kBeyond, 2), 1 / 1.9, 1e-6);
}

TEST(SurvivalTest, ObservationsDecayByOneSixtyFourthPerCycle) {
  Survival survival;
  survival.Observe(TreeOf(TwoByTwo(), 1), SpineOf(TwoByTwo()), {{}, kOther});
  for (int i = 0; i < Survival::kFadeBatch; ++i) survival.ObserveNoDraft();
  const double faded = 0.8 * std::pow(63.0 / 64, Survival::kFadeBatch);
  EXPECT_NEAR(survival.Factor(PathKind::kSpine, 1), 1 / (faded + 1), 1e-6);
  for (int i = 0; i < 2000; ++i) survival.ObserveNoDraft();
  EXPECT_NEAR(survival.Factor(PathKind::kSpine, 1), 1.0, 1e-6);
}

TEST(SurvivalTest, LearnsFromTheRootAlone) {
  const DraftTree root(kRoot);
  Survival right;
  Survival wrong;
  right.Observe(root, SpineOf(TwoByTwo()), {{}, 0});  // Token 0 is the top token of position 1.
  wrong.Observe(root, SpineOf(TwoByTwo()), {{}, 1});
  EXPECT_NEAR(right.Factor(PathKind::kSpine, 1), 2 / 1.8, 1e-6);
  EXPECT_NEAR(wrong.Factor(PathKind::kSpine, 1), 1 / 1.8, 1e-6);
}

TEST(SurvivalTest, TheNextTokenIsObservedOneDepthBeyondTheTree) {
  // The only node is a, and it is accepted. The next token is x (token 100), which is a hit at the
  // unverified depth 2.
  Survival survival;
  survival.Observe(TreeOf(TwoByTwo(), 1), SpineOf(TwoByTwo()), {{1}, 100});
  EXPECT_NEAR(survival.Factor(PathKind::kSpine, 1), 2 / 1.8, 1e-6);
  EXPECT_NEAR(survival.Factor(PathKind::kSpine, 2), (1 + 2 / 1.8) / 1.5, 1e-6);
}

TEST(SurvivalTest, ANodesProbabilityNeverExceedsItsParents) {
  Survival survival;
  for (int i = 0; i < 100; ++i) {  // Always right, although the drafter states .8 and .5.
    survival.Observe(TreeOf(TwoByTwo(), 2), SpineOf(TwoByTwo()), {{1, 2}, kOther});
  }
  EXPECT_THAT(survival.AcceptanceProbabilities(TreeOf(TwoByTwo(), 2)),
              Pointwise(DoubleNear(0.03), {1.0, 1.0, 1.0}));
  for (const double value : survival.AcceptanceProbabilities(TreeOf(TwoByTwo(), 6)))
    EXPECT_LE(value, 1.0);
}

TEST(SurvivalTest, ADrafterWithNoAcceptedTokensSoonGetsALowFactor) {
  const Marginals confident = MarginalsOf({{0.95, 0.04}, {0.95, 0.04}});
  Survival survival;
  for (int i = 0; i < 20; ++i)
    survival.Observe(TreeOf(confident, 3), SpineOf(confident), {{}, kOther});
  EXPECT_LT(survival.AcceptanceProbabilities(TreeOf(confident, 1))[1], 0.12);
  for (int i = 0; i < 2000; ++i)
    survival.Observe(TreeOf(confident, 3), SpineOf(confident), {{}, kOther});
  EXPECT_GE(survival.Factor(PathKind::kSpine, 1), Survival::kMinFactor);
}

TEST(SurvivalTest, ConvergesToTheTrueRates) {
  // The drafter states .5 on the whole spine. The true probabilities are .9 for the first token and
  // .25 for the second. The initial mass of 1, against 32 observed, pulls the first from .9 to
  // .5·(57.6 + 1)/(32 + 1) = .888 on average.
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
    const std::vector<double> values = survival.AcceptanceProbabilities(TreeOf(marginals, 2));
    sum1 += values[1] / kCycles;
    sum2 += values[2] / kCycles;
  }
  EXPECT_NEAR(sum1, 0.888, 0.02);
  EXPECT_NEAR(sum2, 0.888 * 0.25, 0.04);
}

TEST(SurvivalTest, NodesBelowTheMaximumDepthShareTheLastFactor) {
  const Marginals deep = MarginalsOf(std::vector<std::vector<double>>(40, {0.9}));
  Survival survival;
  survival.Observe(SpineOf(deep), SpineOf(deep), {{}, kOther});
  EXPECT_EQ(survival.AcceptanceProbabilities(SpineOf(deep)).size(), 41u);
  EXPECT_EQ(survival.Factor(PathKind::kSpine, 40),
            survival.Factor(PathKind::kSpine, Survival::kMaxDepth));
}

TEST(SurvivalTest, AnUnverifiedTreeWithAllTokensKnownCountsLikeAVerifiedTree) {
  const Marginals marginals = MarginalsOf({{0.5, 0.4}, {0.5, 0.4}, {0.5, 0.4}, {0.5, 0.4}});
  const DraftTree tree = TreeOf(marginals, 20);
  const DraftTree spine = SpineOf(marginals);
  // The tokens that the target chose after the root.
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
    Survival verified, unverified;
    verified.Observe(tree, spine, acceptance);
    unverified.ObserveUnverified(tree, spine, text);
    for (int depth = 1; depth <= 4; ++depth) {
      for (const PathKind kind : {PathKind::kSpine, PathKind::kSibling, PathKind::kBeyond}) {
        EXPECT_EQ(unverified.Factor(kind, depth), verified.Factor(kind, depth)) << depth;
      }
    }
  }
}

TEST(SurvivalTest, AnUnverifiedTreeIsObservedOnlyWhereTokensAreKnown) {
  const Marginals marginals = MarginalsOf({{0.5, 0.4}, {0.5, 0.4}, {0.5, 0.4}});
  Survival survival;
  survival.ObserveUnverified(TreeOf(marginals, 12), SpineOf(marginals), {0});
  EXPECT_GT(survival.Factor(PathKind::kSpine, 1), 1);
  // Depth 2 has no observations, so it has the factor of depth 1.
  EXPECT_EQ(survival.Factor(PathKind::kSpine, 2), survival.Factor(PathKind::kSpine, 1));
  EXPECT_EQ(survival.Factor(PathKind::kBeyond, 2), 1);
}

}  // namespace
}  // namespace bastion
