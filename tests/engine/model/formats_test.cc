#include "engine/model/formats.h"

#include "gtest/gtest.h"

namespace bastion::nn {
namespace {

TEST(FormatsTest, ActivationsFollowFromTheWeights) {
  EXPECT_EQ(FormatsFor(WeightFormat::kF32).activations, DType::kF32);
  EXPECT_EQ(FormatsFor(WeightFormat::kBF16).activations, DType::kBF16);
  EXPECT_EQ(FormatsFor(WeightFormat::kInt8).activations, DType::kBF16);
  EXPECT_EQ(Formats(), FormatsFor(WeightFormat::kBF16));
}

TEST(FormatsTest, MatricesThatAreNotQuantizedHaveTheFormatOfTheActivations) {
  EXPECT_EQ(UnquantizedFormat(FormatsFor(WeightFormat::kInt8)), WeightFormat::kBF16);
  EXPECT_EQ(UnquantizedFormat({DType::kF32, WeightFormat::kInt8}), WeightFormat::kF32);
}

TEST(FormatsTest, TheDescriptionNamesOnlyUnusualActivations) {
  EXPECT_EQ(Describe(FormatsFor(WeightFormat::kInt8)), "int8");
  EXPECT_EQ(Describe(FormatsFor(WeightFormat::kF32)), "fp32");
  EXPECT_EQ(Describe({DType::kF32, WeightFormat::kBF16}), "bf16, activations fp32");
}

}  // namespace
}  // namespace bastion::nn
