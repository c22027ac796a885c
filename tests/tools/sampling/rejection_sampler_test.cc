#include "tools/sampling/rejection_sampler.h"

#include <array>
#include <cstdlib>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/exactness/statistics.h"

namespace bastion {
namespace {

using ::testing::ElementsAre;

using Distribution = std::vector<double>;

constexpr int kTokens = 4;  // Vocabulary size.
// Rows: the token before. p and q differ in every row, and q is 0 where p is not.
const std::array<Distribution, kTokens> kTarget = {
    {{0.5, 0.3, 0.1, 0.1}, {0.05, 0.05, 0.2, 0.7}, {0.25, 0.25, 0.25, 0.25}, {0.0, 0.6, 0.3, 0.1}}};
const std::array<Distribution, kTokens> kDraft = {
    {{0.2, 0.2, 0.0, 0.6}, {0.3, 0.1, 0.4, 0.2}, {0.7, 0.1, 0.1, 0.1}, {0.25, 0.25, 0.25, 0.25}}};

// Models that know the last token only.
class BigramSource final : public ChainSource {
 public:
  explicit BigramSource(TokenId root) : root_(root) {}

  absl::StatusOr<Distribution> Draft(absl::Span<const TokenId> drafted) override {
    if (static_cast<int>(drafted.size()) >= positions) return Distribution();
    return draft.at(Last(drafted));
  }
  absl::StatusOr<Distribution> Target(absl::Span<const TokenId> accepted) override {
    asked.emplace_back(accepted.begin(), accepted.end());
    if (!error.ok()) return error;
    return kTarget.at(Last(accepted));
  }

  std::array<Distribution, kTokens> draft = kDraft;
  int positions = 100;
  absl::Status error;
  std::vector<std::vector<TokenId>> asked;  // The arguments of Target.

 private:
  [[nodiscard]] TokenId Last(absl::Span<const TokenId> path) const {
    return path.empty() ? root_ : path.back();
  }
  const TokenId root_;
};

SampledCycle Sample(int length, BigramSource& source, RejectionSampler& sampler) {
  absl::StatusOr<SampledCycle> cycle = SampleCycle(length, source, sampler);
  EXPECT_TRUE(cycle.ok()) << cycle.status();
  return *std::move(cycle);
}

// A text goes on over the cycles until it has `tokens` tokens.
std::vector<TokenId> SampleText(TokenId root, int tokens, int length, RejectionSampler& sampler) {
  std::vector<TokenId> text;
  while (static_cast<int>(text.size()) < tokens) {
    BigramSource source(text.empty() ? root : text.back());
    const SampledCycle cycle = Sample(length, source, sampler);
    text.insert(text.end(), cycle.tokens.begin(), cycle.tokens.end());
  }
  text.resize(tokens);
  return text;
}

TEST(RejectionSamplerTest, CommittedTextsFollowTheTarget) {
  constexpr int kTexts = 60000;
  for (const int length : {1, 2, 5}) {
    Distribution expected(kTokens * kTokens * kTokens);
    for (TokenId a = 0; a < kTokens; ++a) {
      for (TokenId b = 0; b < kTokens; ++b) {
        for (TokenId c = 0; c < kTokens; ++c) {
          expected[(a * kTokens + b) * kTokens + c] = kTarget[0][a] * kTarget[a][b] * kTarget[b][c];
        }
      }
    }
    std::vector<int64_t> counts(expected.size());
    RejectionSampler sampler(7);
    for (int i = 0; i < kTexts; ++i) {
      const std::vector<TokenId> text = SampleText(/*root=*/0, 3, length, sampler);
      ++counts[(text[0] * kTokens + text[1]) * kTokens + text[2]];
    }
    const Bins bins = PoolRare(expected, counts);
    EXPECT_EQ(bins.impossible, 0) << "the target never writes 0 after 3";
    EXPECT_GT(ChiSquareOf(bins).p_value, 0.01) << "chains of " << length;
    EXPECT_LT(TotalVariation(bins), 0.015) << "chains of " << length;
  }
}

TEST(RejectionSamplerTest, TheOverlapIsTheAcceptanceRate) {
  constexpr int kCycles = 20000, kLength = 3;
  RejectionSampler sampler(11);
  std::array<double, kLength> reached = {}, accepted = {}, overlap = {};
  for (int i = 0; i < kCycles; ++i) {
    BigramSource source(i % kTokens);
    const SampledCycle cycle = Sample(kLength, source, sampler);
    for (size_t p = 0; p < cycle.positions.size(); ++p) {
      reached[p] += 1;
      accepted[p] += cycle.positions[p].accepted ? 1 : 0;
      overlap[p] += cycle.positions[p].overlap;
    }
  }
  EXPECT_EQ(reached[0], kCycles);
  for (int p = 0; p < kLength; ++p) {
    EXPECT_GT(reached[p], 2000);
    EXPECT_NEAR(overlap[p] / accepted[p], 1, 0.02) << "position " << p;
  }
}

TEST(RejectionSamplerTest, OverlapOfTwoDistributions) {
  EXPECT_NEAR(Overlap(kTarget[0], kDraft[0]), 0.2 + 0.2 + 0.0 + 0.1, 1e-12);
  EXPECT_NEAR(Overlap(kTarget[2], kTarget[2]), 1, 1e-12);
  EXPECT_EQ(Overlap({1.0, 0.0}, {0.0, 1.0}), 0);
}

TEST(RejectionSamplerTest, ReportsTheProbabilityOfTheDraftersBestToken) {
  RejectionSampler sampler(1);
  BigramSource source(/*root=*/1);
  const SampledCycle cycle = Sample(1, source, sampler);
  EXPECT_EQ(cycle.positions.at(0).top, 0.2) << "token 2 is the best of q after 1";
}

TEST(RejectionSamplerTest, EqualDistributionsAcceptTheWholeChain) {
  RejectionSampler sampler(3);
  for (int i = 0; i < 100; ++i) {
    BigramSource source(/*root=*/2);
    source.draft = kTarget;
    const SampledCycle cycle = Sample(4, source, sampler);
    EXPECT_EQ(cycle.positions.size(), 4u);
    EXPECT_EQ(cycle.committed_length(), 5);
    EXPECT_EQ(source.asked.size(), 5u);
  }
}

TEST(RejectionSamplerTest, ADisjointDraftIsReplacedAtOnce) {
  RejectionSampler sampler(3);
  for (int i = 0; i < 100; ++i) {
    BigramSource source(/*root=*/3);
    source.draft.fill({1, 0, 0, 0});  // The target never writes 0 after 3.
    const SampledCycle cycle = Sample(4, source, sampler);
    ASSERT_EQ(cycle.positions.size(), 1u) << "later positions are not reached";
    EXPECT_FALSE(cycle.positions[0].accepted);
    EXPECT_EQ(cycle.committed_length(), 1);
    EXPECT_NE(cycle.tokens[0], 0);
  }
}

TEST(RejectionSamplerTest, TheTargetIsAskedAfterEachAcceptedPrefix) {
  RejectionSampler sampler(5);
  BigramSource source(/*root=*/2);
  source.draft = kTarget;
  const std::vector<TokenId> tokens = Sample(2, source, sampler).tokens;
  EXPECT_THAT(source.asked, ElementsAre(ElementsAre(), ElementsAre(tokens[0]),
                                        ElementsAre(tokens[0], tokens[1])));
}

TEST(RejectionSamplerTest, ADrafterThatEndsEarlyGivesAShorterChain) {
  RejectionSampler sampler(5);
  BigramSource source(/*root=*/2);
  source.draft = kTarget;
  source.positions = 2;
  EXPECT_EQ(Sample(6, source, sampler).committed_length(), 3);
  source.positions = 0;
  const SampledCycle plain = Sample(6, source, sampler);
  EXPECT_TRUE(plain.positions.empty());
  EXPECT_EQ(plain.committed_length(), 1) << "plain decoding";
}

TEST(RejectionSamplerTest, ReturnsTheErrorOfAModel) {
  RejectionSampler sampler(5);
  BigramSource source(/*root=*/2);
  source.error = absl::DataLossError("gone");
  EXPECT_EQ(SampleCycle(2, source, sampler).status().message(), "gone");
}

TEST(RejectionSamplerTest, TheSameSeedGivesTheSameText) {
  RejectionSampler one(9), same(9), other(10);
  const std::vector<TokenId> text = SampleText(0, 200, 3, one);
  EXPECT_EQ(SampleText(0, 200, 3, same), text);
  EXPECT_NE(SampleText(0, 200, 3, other), text);
}

}  // namespace
}  // namespace bastion
