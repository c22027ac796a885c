#include "tools/sampling/target_distribution.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/tools/exactness/toy_target.h"

namespace bastion {
namespace {

using ::testing::DoubleNear;

const std::vector<double> kLogProbs = {std::log(0.1), std::log(0.4), std::log(0.2), std::log(0.2),
                                       std::log(0.1)};

auto Near(const std::vector<double>& expected) {
  std::vector<::testing::Matcher<double>> matchers;
  matchers.reserve(expected.size());
  for (const double value : expected) matchers.push_back(DoubleNear(value, 1e-12));
  return ::testing::ElementsAreArray(matchers);
}

ChoiceParams At(float temperature) {
  ChoiceParams choice;
  choice.temperature = temperature;
  return choice;
}

TEST(ChoiceProbabilitiesTest, TemperatureOneKeepsTheModelsDistribution) {
  EXPECT_THAT(ChoiceProbabilities(kLogProbs, At(1)), Near({0.1, 0.4, 0.2, 0.2, 0.1}));
}

TEST(ChoiceProbabilitiesTest, ALowTemperatureSharpens) {
  // Proportional to the squares 1, 16, 4, 4, 1.
  EXPECT_THAT(ChoiceProbabilities(kLogProbs, At(0.5)),
              Near({1.0 / 26, 16.0 / 26, 4.0 / 26, 4.0 / 26, 1.0 / 26}));
}

TEST(ChoiceProbabilitiesTest, TemperatureZeroSelectsTheMostLikelyToken) {
  EXPECT_THAT(ChoiceProbabilities(kLogProbs, At(0)), Near({0, 1, 0, 0, 0}));
}

TEST(ChoiceProbabilitiesTest, TopKKeepsTiesForTheLastPlace) {
  ChoiceParams choice = At(1);
  choice.top_k = 2;
  EXPECT_THAT(ChoiceProbabilities(kLogProbs, choice), Near({0, 0.5, 0.25, 0.25, 0}));
}

TEST(ChoiceProbabilitiesTest, TopPKeepsTheTokenThatCrossesTheThreshold) {
  ChoiceParams choice = At(1);
  choice.top_p = 0.5f;
  EXPECT_THAT(ChoiceProbabilities(kLogProbs, choice), Near({0, 2.0 / 3, 1.0 / 3, 0, 0}));
}

TEST(ChoiceProbabilitiesTest, TopPAppliesAfterTopK) {
  ChoiceParams choice = At(1);
  choice.top_k = 3;
  choice.top_p = 0.45f;  // 0.4 / 0.8 is enough.
  EXPECT_THAT(ChoiceProbabilities(kLogProbs, choice), Near({0, 1, 0, 0, 0}));
}

TEST(ChoiceProbabilitiesTest, MinPIsRelativeToTheMostLikelyToken) {
  ChoiceParams choice = At(1);
  choice.min_p = 0.4f;
  EXPECT_THAT(ChoiceProbabilities(kLogProbs, choice), Near({0, 0.5, 0.25, 0.25, 0}));
}

TEST(NextLogProbsTest, MatchTheModelAndCloseTheSequence) {
  testing::ToyTarget target;
  const auto log_probs = NextLogProbs(target, {7, 0}, {3, 5, 2});
  ASSERT_TRUE(log_probs.ok()) << log_probs.status();
  const std::vector<float> logits = testing::ToyLogits(5, 2);
  double total = 0;
  for (size_t x = 0; x < logits.size(); ++x) {
    EXPECT_NEAR((*log_probs)[x] - (*log_probs)[0], logits[x] - logits[0], 1e-5);
    total += std::exp((*log_probs)[x]);
  }
  EXPECT_NEAR(total, 1, 1e-5);
  EXPECT_EQ(target.live_sequences(), 0u);
}

}  // namespace
}  // namespace bastion
