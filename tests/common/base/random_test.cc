#include "common/base/random.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion {
namespace {

// The published vectors are the three "philox4x32 10" lines of kat_vectors in Random123, the
// library of the authors of Philox.
TEST(PhiloxTest, MatchesThePublishedVectorForZeros) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
}

TEST(PhiloxTest, MatchesThePublishedVectorForOnes) {
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(Philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

TEST(PhiloxTest, MatchesThePublishedVectorForDigitsOfPi) {
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// A standard Gumbel variable has mean γ = 0.57722 and variance π²/6 = 1.64493. The tolerances are
// five standard deviations for n = 2^18 draws: 5·sqrt(1.645/n) = 0.0125 for the mean and
// 5·1.645·sqrt(4.4/n) = 0.034 for the variance (kurtosis 5.4).
TEST(KeyedGumbelTest, MeanAndVarianceMatchTheDistribution) {
  constexpr int kDraws = 1 << 18;
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double g = KeyedGumbel(/*seed=*/123, /*position=*/i / 4096, /*token=*/i % 4096);
    sum += g;
    squares += g * g;
  }
  const double mean = sum / kDraws;
  EXPECT_NEAR(mean, 0.57722, 0.0125);
  EXPECT_NEAR(squares / kDraws - mean * mean, 1.64493, 0.034);
}

// P(g < x) = exp(-exp(-x)). The tolerance is five standard deviations.
TEST(KeyedGumbelTest, QuartilesMatchTheDistribution) {
  constexpr int kDraws = 1 << 16;
  for (const double share : {0.25, 0.5, 0.75}) {
    const double quantile = -std::log(-std::log(share));
    int below = 0;
    for (int i = 0; i < kDraws; ++i) below += KeyedGumbel(9, 1, i) < quantile ? 1 : 0;
    EXPECT_NEAR(static_cast<double>(below) / kDraws, share,
                5 * std::sqrt(share * (1 - share) / kDraws));
  }
}

// The Gumbel-max trick: argmax (log p + g) is distributed like p = (1/2, 1/3, 1/6).
TEST(KeyedGumbelTest, ArgmaxSamplesTheDistribution) {
  const std::vector<double> p = {1.0 / 2, 1.0 / 3, 1.0 / 6};
  constexpr int kDraws = 30000;
  std::vector<int> counts(p.size(), 0);
  for (int position = 0; position < kDraws; ++position) {
    std::vector<double> keys;
    for (size_t x = 0; x < p.size(); ++x) {
      keys.push_back(std::log(p[x]) + KeyedGumbel(77, position, static_cast<TokenId>(x)));
    }
    ++counts[std::max_element(keys.begin(), keys.end()) - keys.begin()];
  }
  for (size_t x = 0; x < p.size(); ++x) {
    EXPECT_NEAR(static_cast<double>(counts[x]) / kDraws, p[x],
                5 * std::sqrt(p[x] * (1 - p[x]) / kDraws));
  }
}

TEST(KeyedGumbelTest, ValuesDoNotDependOnTheOrderOfCalls) {
  using Key = std::tuple<uint64_t, Position, TokenId>;
  std::vector<Key> keys;
  for (uint64_t seed = 0; seed < 3; ++seed) {
    for (Position position = 0; position < 10; ++position) {
      for (TokenId token = 0; token < 10; ++token) keys.emplace_back(seed, position, token);
    }
  }
  std::map<Key, float> in_order;
  for (const auto& [seed, position, token] : keys) {
    in_order[{seed, position, token}] = KeyedGumbel(seed, position, token);
  }
  std::shuffle(keys.begin(), keys.end(), std::mt19937(5));
  for (const auto& [seed, position, token] : keys) {
    EXPECT_EQ(KeyedGumbel(seed, position, token), in_order.at({seed, position, token}));
  }
}

TEST(KeyedGumbelTest, GroupHoldsFourConsecutiveTokens) {
  for (uint32_t group : {0u, 1u, 1000u}) {
    const std::array<float, 4> values = KeyedGumbelGroup(11, 22, group);
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(values[i], KeyedGumbel(11, 22, static_cast<TokenId>(4 * group) + i));
    }
  }
}

TEST(KeyedGumbelTest, EveryPartOfTheKeyMatters) {
  const uint64_t high = uint64_t{1} << 32;
  const std::set<float> values = {KeyedGumbel(1, 5, 9),  KeyedGumbel(1 + high, 5, 9),
                                  KeyedGumbel(2, 5, 9),  KeyedGumbel(1, 6, 9),
                                  KeyedGumbel(1, 5, 10), KeyedGumbel(1, 5, 13)};
  EXPECT_EQ(values.size(), 6u);
}

}  // namespace
}  // namespace bastion
