#include "common/stages/marginals.h"

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion {
namespace {

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
