#include "common/stages/marginals.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kTokens = 10;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

Marginals SampleMarginals() { return {2, 2, {3, 4, 4, 3}, {-0.5f, -1.0f, 0.0f, -kInfinity}}; }

TEST(MarginalsTest, SampleIsValid) {
  EXPECT_TRUE(SampleMarginals().Validate(kTokens).ok());
  EXPECT_FALSE(SampleMarginals().empty());
  EXPECT_EQ(SampleMarginals().token(1, 0), 4);
  EXPECT_EQ(SampleMarginals().log_prob(0, 1), -1.0f);
}

TEST(MarginalsTest, EmptyMarginalsAreValid) {
  EXPECT_TRUE(Marginals().empty());
  EXPECT_TRUE(Marginals().Validate(kTokens).ok());
}

TEST(MarginalsTest, ValidateReportsNegativeSizes) {
  Marginals marginals;
  marginals.positions = -1;
  marginals.candidates = -1;
  EXPECT_THAT(marginals.Validate(kTokens).message(), HasSubstr("negative"));
}

TEST(MarginalsTest, ValidateReportsMismatchedSizes) {
  Marginals tokens = SampleMarginals();
  tokens.tokens.pop_back();
  EXPECT_THAT(tokens.Validate(kTokens).message(), HasSubstr("[2, 2] needs 4 entries, got 3"));
  Marginals log_probs = SampleMarginals();
  log_probs.log_probs.push_back(-2.0f);
  EXPECT_THAT(log_probs.Validate(kTokens).message(), HasSubstr("5 log-probabilities"));
}

TEST(MarginalsTest, BucketsAreOptional) {
  Marginals marginals = SampleMarginals();
  EXPECT_EQ(marginals.bucket(1), kNoBucket);
  marginals.buckets = {0, 3};
  EXPECT_TRUE(marginals.Validate(kTokens).ok());
  EXPECT_EQ(marginals.bucket(0), 0);
  EXPECT_EQ(marginals.bucket(1), 3);
  EXPECT_NE(marginals, SampleMarginals());
}

TEST(MarginalsTest, ValidateReportsAWrongNumberOfBuckets) {
  for (const size_t count : {1, 3}) {
    Marginals marginals = SampleMarginals();
    marginals.buckets.resize(count);
    EXPECT_THAT(marginals.Validate(kTokens).message(), HasSubstr("2 positions have"));
  }
  Marginals empty;
  empty.buckets = {0};
  EXPECT_THAT(empty.Validate(kTokens).message(), HasSubstr("0 positions have 1 buckets"));
}

TEST(MarginalsTest, ValidateReportsAnUnknownBucket) {
  Marginals marginals = SampleMarginals();
  marginals.buckets = {3, 4};
  EXPECT_THAT(marginals.Validate(kTokens).message(), HasSubstr("position 1: bucket 4 is above 3"));
}

TEST(MarginalsTest, PairRowsBelongToTheCandidatesBefore) {
  Marginals marginals = SampleMarginals();
  marginals.pair_scores = {1, 2, 0, 0, 3, 4, 5, 6};
  EXPECT_TRUE(marginals.Validate(kTokens).ok());
  EXPECT_THAT(marginals.pair_row(0, 0), ElementsAre(1, 2));
  EXPECT_THAT(marginals.pair_row(1, 0), ElementsAre(3, 4));
  EXPECT_THAT(marginals.pair_row(1, 1), ElementsAre(5, 6));
  EXPECT_NE(marginals, SampleMarginals());
}

TEST(MarginalsTest, BestCandidatesKeepsTheBestOfEachPosition) {
  Marginals all = SampleMarginals();
  all.buckets = {0, 3};
  all.pair_scores = {1, 2, 0, 0, 3, 4, 5, 6};
  EXPECT_EQ(BestCandidates(all, 2), all);
  EXPECT_EQ(BestCandidates(all, 7), all);
  const Marginals best = BestCandidates(all, 1);
  EXPECT_EQ(best, (Marginals{2, 1, {3, 4}, {-0.5F, 0.0F}, {0, 3}, {1, 3}}));
  EXPECT_TRUE(best.Validate(kTokens).ok());
  EXPECT_EQ(BestCandidates(Marginals(), 1), Marginals());
}

TEST(MarginalsTest, ValidateReportsAWrongNumberOfPairScores) {
  for (const size_t count : {4, 7, 9}) {
    Marginals marginals = SampleMarginals();
    marginals.pair_scores.resize(count);
    EXPECT_THAT(marginals.Validate(kTokens).message(),
                HasSubstr(absl::StrCat("[2, 2, 2] pair scores needed, got ", count)));
  }
}

TEST(MarginalsTest, ValidateReportsAPairScoreThatIsNoNumberOrTooLarge) {
  for (const float score : {2 * kMaxPairScore, -std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()}) {
    Marginals marginals = SampleMarginals();
    marginals.pair_scores.resize(8);
    marginals.pair_scores[5] = score;
    EXPECT_THAT(marginals.Validate(kTokens).message(), HasSubstr("a pair score is"));
  }
}

TEST(MarginalsTest, ValidateReportsATokenOutsideTheVocabulary) {
  EXPECT_THAT(SampleMarginals().Validate(4).message(), HasSubstr("position 0 rank 1: token 4"));
  Marginals negative = SampleMarginals();
  negative.tokens[2] = -1;
  EXPECT_THAT(negative.Validate(kTokens).message(), HasSubstr("position 1 rank 0: token -1"));
}

TEST(MarginalsTest, ValidateReportsARepeatedToken) {
  Marginals marginals = SampleMarginals();
  marginals.tokens[1] = 3;
  EXPECT_THAT(marginals.Validate(kTokens).message(),
              HasSubstr("position 0 rank 1: token 3 repeats"));
}

TEST(MarginalsTest, ValidateReportsALogProbabilityAboveZero) {
  Marginals marginals = SampleMarginals();
  marginals.log_probs[0] = 0.1f;
  EXPECT_THAT(marginals.Validate(kTokens).message(), HasSubstr("position 0 rank 0"));
}

TEST(MarginalsTest, ValidateReportsUnsortedLogProbabilities) {
  Marginals marginals = SampleMarginals();
  marginals.log_probs[1] = -0.1f;
  EXPECT_THAT(marginals.Validate(kTokens).message(), HasSubstr("not sorted"));
}

TEST(MarginalsTest, ValidateRejectsANanLogProbability) {
  for (size_t i = 0; i < 4; ++i) {
    Marginals marginals = SampleMarginals();
    marginals.log_probs[i] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_EQ(marginals.Validate(kTokens).code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace bastion
