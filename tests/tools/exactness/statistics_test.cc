#include "tools/exactness/statistics.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

Bins BinsOf(const std::vector<double>& probabilities, const std::vector<int64_t>& counts) {
  return PoolRare(probabilities, counts);
}

TEST(UpperGammaTest, MatchesTheTailOfTheChiSquareDistribution) {
  // Critical values from published tables: p = Q(degrees / 2, x / 2).
  EXPECT_NEAR(UpperGamma(0.5, 3.841458820694124 / 2), 0.05, 1e-12);
  EXPECT_NEAR(UpperGamma(1.0, 9.210340371976182 / 2), 0.01, 1e-12);
  EXPECT_NEAR(UpperGamma(5.0, 18.307038053275146 / 2), 0.05, 1e-12);
  EXPECT_NEAR(UpperGamma(50.0, 124.34211340400407 / 2), 0.05, 1e-10);
}

TEST(UpperGammaTest, MatchesTheExponentialForAOfOne) {
  for (const double x : {0.1, 1.0, 1.9, 2.1, 30.0}) {
    EXPECT_NEAR(UpperGamma(1, x) / std::exp(-x), 1, 1e-10) << x;
  }
}

TEST(UpperGammaTest, DecreasesFromOneToZero) {
  EXPECT_EQ(UpperGamma(3, 0), 1);
  EXPECT_LT(UpperGamma(3, 1000), 1e-300);
  // Both expansions agree near x = a + 1.
  EXPECT_NEAR(UpperGamma(400, 400.999), UpperGamma(400, 401.001), 1e-4);
}

TEST(PoolRareTest, RareOutcomesShareABin) {
  const Bins bins = BinsOf({0.6, 0.3, 0.03, 0.03, 0.04, 0}, {60, 31, 2, 3, 4, 0});
  EXPECT_EQ(bins.draws, 100);
  EXPECT_EQ(bins.impossible, 0);
  EXPECT_THAT(bins.counts, ElementsAre(60, 31, 9));
  EXPECT_THAT(bins.probabilities,
              ElementsAre(DoubleNear(0.6, 1e-9), DoubleNear(0.3, 1e-9), DoubleNear(0.1, 1e-9)));
}

TEST(PoolRareTest, APoolThatIsTooSmallJoinsTheRarestBin) {
  const Bins bins = BinsOf({0.7, 0.28, 0.02}, {70, 27, 3});
  EXPECT_THAT(bins.counts, ElementsAre(70, 30));
}

TEST(ChiSquareTest, MatchesASumComputedByHand) {
  const ChiSquare result = ChiSquareOf(BinsOf({0.5, 0.25, 0.25}, {60, 20, 20}));
  EXPECT_EQ(result.degrees, 2);
  EXPECT_NEAR(result.statistic, 100.0 / 50 + 25.0 / 25 + 25.0 / 25, 1e-9);
  EXPECT_NEAR(result.p_value, std::exp(-2), 1e-9);
}

TEST(ChiSquareTest, AnImpossibleDrawHasPValueZero) {
  EXPECT_EQ(ChiSquareOf(BinsOf({0.5, 0.5, 0}, {500, 499, 1})).p_value, 0);
}

TEST(ChiSquareTest, OneBinHasPValueOne) { EXPECT_EQ(ChiSquareOf(BinsOf({1}, {100})).p_value, 1); }

TEST(TotalVariationTest, IsHalfTheSumOfTheDifferences) {
  EXPECT_NEAR(TotalVariation(BinsOf({0.5, 0.25, 0.25}, {60, 20, 20})), 0.1, 1e-12);
  EXPECT_NEAR(TotalVariation(BinsOf({0.5, 0.5, 0}, {50, 40, 10})), 0.1, 1e-12);
}

TEST(TotalVariationTest, BootstrapMatchesTheBinomialDistribution) {
  // Two equal bins: |count / n − 1/2| is half-normal with scale 1 / (2 √n).
  const TotalVariationRange range = BootstrapTotalVariation(BinsOf({0.5, 0.5}, {5000, 5000}), 4000);
  const double deviation = 1 / (2 * std::sqrt(10000.0));
  EXPECT_NEAR(range.mean, deviation * std::sqrt(2 / M_PI), 0.05 * deviation);
  EXPECT_NEAR(range.deviation, deviation * std::sqrt(1 - 2 / M_PI), 0.05 * deviation);
}

TEST(TotalVariationTest, TheBootstrapIsDeterministic) {
  const Bins bins = BinsOf({0.2, 0.3, 0.5}, {200, 300, 500});
  EXPECT_EQ(BootstrapTotalVariation(bins, 50).mean, BootstrapTotalVariation(bins, 50).mean);
}

}  // namespace
}  // namespace bastion
