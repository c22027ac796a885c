#include "engine/program/format_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/cpu/cpu_backend.h"

namespace bastion::nn {
namespace {

using ::testing::HasSubstr;

Formats Parsed(const std::string& weights, const std::string& activations) {
  const auto formats = ParseFormats({weights, activations});
  EXPECT_TRUE(formats.ok()) << formats.status();
  return formats.value_or(Formats());
}

std::string RefusalOf(const std::string& weights, const std::string& activations) {
  const absl::Status status = ParseFormats({weights, activations}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

TEST(FormatNamesTest, WithoutNamesBothAreBf16) {
  EXPECT_EQ(Parsed("", ""), (Formats{DType::kBF16, WeightFormat::kBF16}));
}

TEST(FormatNamesTest, EachFollowsFromTheOther) {
  EXPECT_EQ(Parsed("fp32", ""), (Formats{DType::kF32, WeightFormat::kF32}));
  EXPECT_EQ(Parsed("int8", ""), (Formats{DType::kBF16, WeightFormat::kInt8}));
  EXPECT_EQ(Parsed("", "fp32"), (Formats{DType::kF32, WeightFormat::kF32}));
  EXPECT_EQ(Parsed("", "bf16"), (Formats{DType::kBF16, WeightFormat::kBF16}));
}

TEST(FormatNamesTest, BothCanBeNamed) {
  EXPECT_EQ(Parsed("int8", "fp32"), (Formats{DType::kF32, WeightFormat::kInt8}));
  EXPECT_EQ(Parsed("fp32", "bf16"), (Formats{DType::kBF16, WeightFormat::kF32}));
}

TEST(FormatNamesTest, TheOldSpellingNamesWeightsAndIsLogged) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(Parsed("", "int8"), FormatsFor(WeightFormat::kInt8));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("--dtype int8 is now --weights int8"));
}

TEST(FormatNamesTest, UnknownNamesAreRefused) {
  EXPECT_THAT(RefusalOf("fp8", ""), HasSubstr("--weights is fp8; it must be one of"));
  EXPECT_THAT(RefusalOf("auto", ""), HasSubstr("--weights is auto"));
  EXPECT_THAT(RefusalOf("", "fp16"), HasSubstr("--dtype is fp16; it must be fp32 or bf16"));
  EXPECT_THAT(RefusalOf("int8", "int8"), HasSubstr("--dtype is int8; it must be fp32 or bf16"));
}

TEST(FormatNamesTest, ADrafterMayLetTheCpuChoose) {
  const Formats fast =
      FormatsFor(kernels::HasInt8Instructions() ? WeightFormat::kInt8 : WeightFormat::kBF16);
  EXPECT_EQ(*ParseDraftFormats({.weights = "auto"}), fast);
  EXPECT_EQ(*ParseDraftFormats({.activations = "auto"}), fast) << "the old spelling";
  EXPECT_EQ(*ParseDraftFormats({.weights = "auto"}, /*on_gpu=*/true),
            FormatsFor(WeightFormat::kBF16));
  EXPECT_EQ(*ParseDraftFormats({.weights = "fp32"}), FormatsFor(WeightFormat::kF32));
  EXPECT_FALSE(ParseDraftFormats({.weights = "fp8"}).ok());
}

}  // namespace
}  // namespace bastion::nn
