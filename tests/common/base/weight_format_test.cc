#include "common/base/weight_format.h"

#include "common/base/dtype.h"
#include "gtest/gtest.h"

namespace bastion {
namespace {

TEST(WeightFormatTest, EveryFormatIsFoundByItsName) {
  for (const WeightFormat format : kWeightFormats) {
    EXPECT_EQ(WeightFormatFromName(Name(format)), format);
    EXPECT_GT(Bits(format), 0);
  }
  EXPECT_EQ(WeightFormatFromName("int8"), WeightFormat::kInt8);
  EXPECT_EQ(WeightFormatFromName("fp16"), std::nullopt);
  EXPECT_EQ(WeightFormatFromName(""), std::nullopt);
}

TEST(WeightFormatTest, WeightsHaveTheBytesOfTheirBits) {
  EXPECT_EQ(Bytes(WeightFormat::kF32, 10), 40u);
  EXPECT_EQ(Bytes(WeightFormat::kBF16, 10), 20u);
  EXPECT_EQ(Bytes(WeightFormat::kInt8, 10), 10u);
  EXPECT_EQ(Bytes(WeightFormat::kInt8, int64_t{1} << 40), size_t{1} << 40);
  EXPECT_EQ(BytesPerWeight(WeightFormat::kBF16), 2);
}

TEST(DTypeTest, ElementsHaveTheBytesOfTheirType) {
  EXPECT_EQ(Bytes(DType::kF32, 3), 12u);
  EXPECT_EQ(Bytes(DType::kBF16, 3), 6u);
  EXPECT_EQ(Bytes(DType::kF16, 3), 6u);
  EXPECT_EQ(Bytes(DType::kU16, 3), 6u);
  EXPECT_EQ(Bytes(DType::kI32, 3), 12u);
  EXPECT_EQ(Bytes(DType::kU32, 3), 12u);
  EXPECT_EQ(Bytes(DType::kI64, 3), 24u);
  EXPECT_EQ(Bytes(DType::kU64, 3), 24u);
}

TEST(DTypeTest, NamesBelongToTheirTypes) {
  EXPECT_STREQ(Name(DType::kBF16), "bf16");
  EXPECT_STREQ(Name(DType::kU64), "uint64");
  EXPECT_STREQ(SafetensorsName(DType::kU16), "U16");
  EXPECT_EQ(DTypeFromSafetensors("I64"), DType::kI64);
}

}  // namespace
}  // namespace bastion
