#include "orchestrator/budget/sharpness.h"

#include <cmath>
#include <random>

#include "gtest/gtest.h"
#include "orchestrator/tree/chain.h"
#include "tests/support/random_marginals.h"

namespace bastion {
namespace {

using ::bastion::testing::Awkward;
using ::bastion::testing::MarginalsOf;
using ::bastion::testing::RandomMarginals;

constexpr TokenId kRoot = 7;

// A token of `position` drawn from softmax(β s).
TokenId Draw(const Marginals& coupled, int position, double beta, std::mt19937& random) {
  std::vector<double> masses;
  for (int rank = 0; rank < coupled.candidates; ++rank) {
    masses.push_back(std::exp(beta * coupled.log_prob(position, rank)));
  }
  std::discrete_distribution<> ranks(masses.begin(), masses.end());
  return coupled.token(position, ranks(random));
}

TEST(SharpnessTest, StartsAsTheDraftSays) {
  const Marginals coupled = MarginalsOf({{0.5, 0.25, 0.125}});
  const Marginals applied = Sharpness().Applied(coupled);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_NEAR(std::exp(applied.log_prob(0, rank)), std::exp(coupled.log_prob(0, rank)) / 0.875,
                1e-6);
  }
}

TEST(SharpnessTest, OneStepByHand) {
  const Marginals coupled = MarginalsOf({{0.5, 0.25}});
  Sharpness sharpness;
  sharpness.Observe(coupled, DraftTree(kRoot), {{}, coupled.token(0, 0)});
  // Under (2/3, 1/3) of scores (ln 1/2, ln 1/4): mean ln 1/2 − ln2/3, variance 2/9 ln²2.
  const double ln2 = std::log(2.0);
  const double expected = 1 + (ln2 / 3) / (2.0 / 9 * ln2 * ln2 + Sharpness::kPriorCurvature);
  EXPECT_NEAR(sharpness.At(1), expected, 1e-6);
  EXPECT_EQ(sharpness.At(2), 1);
}

TEST(SharpnessTest, EveryDepthOfTheWalkIsLearnedFromAndNoneBelow) {
  std::mt19937 random(3);
  const Marginals coupled = RandomMarginals(random, 5, 8, Awkward::kNone, 4.0);
  const DraftTree chain = GrowChain(kRoot, CandidateScores::Of(coupled), 5);
  Sharpness sharpness;
  sharpness.Observe(coupled, chain, {{1, 2}, coupled.token(2, 7)});
  EXPECT_GT(sharpness.At(1), 1);
  EXPECT_GT(sharpness.At(2), 1);
  EXPECT_LT(sharpness.At(3), 1);
  EXPECT_EQ(sharpness.At(4), 1);
  Sharpness whole;
  whole.Observe(coupled, chain, {{1, 2, 3, 4, 5}, 9});  // What follows is beyond the draft.
  EXPECT_GT(whole.At(5), 1);
}

TEST(SharpnessTest, FindsTheTruthAtEveryDepthAndFollowsWhenItChanges) {
  for (const double truth : {0.4, 1.0, 2.5}) {
    std::mt19937 random(11);
    Sharpness sharpness;
    const auto play = [&](double beta) {
      for (int cycle = 0; cycle < 3000; ++cycle) {
        const Marginals coupled = RandomMarginals(random, 2, 16, Awkward::kNone, 6.0);
        const DraftTree chain = GrowChain(kRoot, CandidateScores::Of(coupled), 1);
        sharpness.Observe(coupled, DraftTree(kRoot), {{}, Draw(coupled, 0, beta, random)});
        sharpness.Observe(coupled, chain, {{1}, Draw(coupled, 1, beta, random)});
      }
    };
    play(1.0);
    play(truth);
    EXPECT_NEAR(sharpness.At(2), truth, 0.2 * truth);
  }
}

TEST(SharpnessTest, SharpenedDraftsKeepTheirOrderAndAreValid) {
  std::mt19937 random(5);
  Sharpness sharpness;
  for (int cycle = 0; cycle < 300; ++cycle) {
    for (const Awkward awkward : {Awkward::kTies, Awkward::kZeroTails}) {
      const Marginals coupled = RandomMarginals(random, 40, 12, awkward);
      sharpness.Observe(coupled, DraftTree(kRoot), {{}, cycle % 2 ? coupled.token(0, 0) : 5000});
      const Marginals applied = sharpness.Applied(coupled);
      EXPECT_TRUE(applied.Validate(10000).ok()) << applied.Validate(10000);
      EXPECT_EQ(applied.tokens, coupled.tokens);
    }
  }
  EXPECT_TRUE(sharpness.Applied({}).empty());
}

}  // namespace
}  // namespace bastion
