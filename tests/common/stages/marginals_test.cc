#include "common/stages/marginals.h"

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion {
namespace {

using ::testing::HasSubstr;

constexpr int kVocabulary = 10;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

Marginals Sample() { return {2, 2, {3, 4, 4, 3}, {-0.5f, -1.0f, 0.0f, -kInfinity}}; }

TEST(MarginalsTest, SampleIsValid) {
  EXPECT_TRUE(Sample().Validate(kVocabulary).ok());
  EXPECT_FALSE(Sample().empty());
  EXPECT_EQ(Sample().token(1, 0), 4);
  EXPECT_EQ(Sample().log_prob(0, 1), -1.0f);
}

TEST(MarginalsTest, EmptyMarginalsAreValid) {
  EXPECT_TRUE(Marginals().empty());
  EXPECT_TRUE(Marginals().Validate(kVocabulary).ok());
}

TEST(MarginalsTest, ValidateReportsNegativeSizes) {
  Marginals marginals;
  marginals.positions = -1;
  marginals.candidates = -1;
  EXPECT_THAT(marginals.Validate(kVocabulary).message(), HasSubstr("negative"));
}

TEST(MarginalsTest, ValidateReportsMismatchedSizes) {
  Marginals tokens = Sample();
  tokens.tokens.pop_back();
  EXPECT_THAT(tokens.Validate(kVocabulary).message(), HasSubstr("[2, 2] needs 4 entries, got 3"));
  Marginals log_probs = Sample();
  log_probs.log_probs.push_back(-2.0f);
  EXPECT_THAT(log_probs.Validate(kVocabulary).message(), HasSubstr("5 log-probabilities"));
}

TEST(MarginalsTest, ValidateReportsATokenOutsideTheVocabulary) {
  EXPECT_THAT(Sample().Validate(4).message(), HasSubstr("position 0 rank 1: token 4"));
  Marginals negative = Sample();
  negative.tokens[2] = -1;
  EXPECT_THAT(negative.Validate(kVocabulary).message(), HasSubstr("position 1 rank 0: token -1"));
}

TEST(MarginalsTest, ValidateReportsARepeatedToken) {
  Marginals marginals = Sample();
  marginals.tokens[1] = 3;
  EXPECT_THAT(marginals.Validate(kVocabulary).message(),
              HasSubstr("position 0 rank 1: token 3 repeats"));
}

TEST(MarginalsTest, ValidateReportsALogProbabilityAboveZero) {
  Marginals marginals = Sample();
  marginals.log_probs[0] = 0.1f;
  EXPECT_THAT(marginals.Validate(kVocabulary).message(), HasSubstr("position 0 rank 0"));
}

TEST(MarginalsTest, ValidateReportsUnsortedLogProbabilities) {
  Marginals marginals = Sample();
  marginals.log_probs[1] = -0.1f;
  EXPECT_THAT(marginals.Validate(kVocabulary).message(), HasSubstr("not sorted"));
}

TEST(MarginalsTest, ValidateRejectsANanLogProbability) {
  for (size_t i = 0; i < 4; ++i) {
    Marginals marginals = Sample();
    marginals.log_probs[i] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_EQ(marginals.Validate(kVocabulary).code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace bastion
