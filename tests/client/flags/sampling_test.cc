#include "client/flags/sampling.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion {
namespace {

using ::testing::HasSubstr;

TEST(ParseSamplingTest, ParsesEveryName) {
  const auto sampling = ParseSampling(
      "top_k=40,top_p=0.9,min_p=0.05,repetition_penalty=1.1,presence_penalty=-0.5,"
      "frequency_penalty=0.25");
  ASSERT_TRUE(sampling.ok()) << sampling.status();
  EXPECT_EQ(*sampling, (SamplingParams{{0.0f, 0, 40, 0.9f, 0.05f}, 1.1f, -0.5f, 0.25f}));
}

TEST(ParseSamplingTest, OmittedParametersAreOff) {
  EXPECT_EQ(*ParseSampling(""), SamplingParams());
  EXPECT_EQ(ParseSampling(" top_k=5 ")->top_p, 1.0f);
}

TEST(ParseSamplingTest, InvalidPartsAreReported) {
  for (const char* text : {"top_q=1", "top_p", "top_p=", "top_p=x", "top_k=1.5", "=1"}) {
    const absl::Status status = ParseSampling(text).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text;
    EXPECT_THAT(status.message(), HasSubstr(text)) << text;
  }
}

TEST(ParseSamplingTest, TemperatureAndSeedAreRefused) {
  for (const char* text : {"temperature=0.7", "seed=9"}) {
    const absl::Status status = ParseSampling(text).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text;
    EXPECT_THAT(status.message(), HasSubstr("temperature and seed have flags of their own"));
  }
}

TEST(EncodeSamplingTest, EncodesAllFieldsExceptTheSeed) {
  v1::SamplingParams encoded;
  Encode({{0.7f, 9, 40, 0.9f, 0.05f}, 1.1f, -0.5f, 0.25f, {{3, 2.0f}}}, encoded);
  EXPECT_FALSE(encoded.has_seed());
  EXPECT_EQ(encoded.temperature(), 0.7f);
  EXPECT_EQ(encoded.top_k(), 40);
  EXPECT_EQ(encoded.top_p(), 0.9f);
  EXPECT_EQ(encoded.min_p(), 0.05f);
  EXPECT_EQ(encoded.repetition_penalty(), 1.1f);
  EXPECT_EQ(encoded.presence_penalty(), -0.5f);
  EXPECT_EQ(encoded.frequency_penalty(), 0.25f);
  EXPECT_EQ(encoded.logit_bias().at(3), 2.0f);
}

}  // namespace
}  // namespace bastion
