#include "common/wire/carrier.h"

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion::wire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TensorRef Reference(TensorRef::DType dtype, const std::vector<int64_t>& shape, size_t bytes) {
  TensorRef reference;
  reference.set_dtype(dtype);
  for (const int64_t dim : shape) reference.add_shape(dim);
  reference.set_inline_(std::string(bytes, 'x'));
  return reference;
}

absl::Status Get(const TensorRef& reference) { return InlineCarrier().Get(reference).status(); }

TEST(CarrierTest, ShapeComputesItsBytes) {
  EXPECT_EQ((TensorShape{TensorRef::DTYPE_FLOAT32, {3, 4}}.bytes()), 48);
  EXPECT_EQ((TensorShape{TensorRef::DTYPE_BFLOAT16, {3, 4}}.bytes()), 24);
  EXPECT_EQ((TensorShape{TensorRef::DTYPE_INT32, {}}.bytes()), 4);
  EXPECT_EQ((TensorShape{TensorRef::DTYPE_INT32, {0, 7}}.bytes()), 0);
}

TEST(CarrierTest, InlineBytesArriveUnchanged) {
  InlineCarrier carrier;
  TensorRef reference;
  const std::string bytes("\0\1\2\3\4\5\6\7", 8);
  carrier.Put({TensorRef::DTYPE_BFLOAT16, {2, 2}}, bytes, reference);
  EXPECT_EQ(reference.dtype(), TensorRef::DTYPE_BFLOAT16);
  EXPECT_THAT(reference.shape(), ElementsAre(2, 2));
  const auto got = carrier.Get(reference);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(*got, bytes);
}

TEST(CarrierTest, PutAbortsIfBytesAndShapeDisagree) {
  InlineCarrier carrier;
  TensorRef reference;
  EXPECT_DEATH(carrier.Put({TensorRef::DTYPE_FLOAT32, {2}}, "1234567", reference), "8 vs 7");
}

TEST(CarrierTest, GetRefusesBytesThatDisagreeWithTheShape) {
  const absl::Status status = Get(Reference(TensorRef::DTYPE_FLOAT32, {2, 3}, 23));
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(status.message(), HasSubstr("has 23 bytes, but the type and shape need 24"));
  EXPECT_TRUE(Get(Reference(TensorRef::DTYPE_FLOAT32, {2, 3}, 24)).ok());
}

TEST(CarrierTest, GetRefusesNegativeAndOverflowingDims) {
  constexpr int64_t kHuge = int64_t{1} << 62;
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  for (const std::vector<int64_t>& shape :
       std::vector<std::vector<int64_t>>{{-1, -4},
                                         {-4},
                                         {kHuge, 4},
                                         {kMax, kMax},
                                         {0, kHuge},
                                         {kHuge, 0},
                                         {0, -1},
                                         {0, int64_t{1} << 31}}) {
    for (const size_t bytes : {0, 16}) {
      EXPECT_TRUE(absl::IsInvalidArgument(Get(Reference(TensorRef::DTYPE_INT32, shape, bytes))))
          << shape[0];
    }
  }
}

TEST(CarrierTest, GetRefusesAnUnknownDType) {
  EXPECT_TRUE(absl::IsInvalidArgument(Get(Reference(TensorRef::DTYPE_UNSPECIFIED, {2}, 8))));
  EXPECT_TRUE(absl::IsInvalidArgument(Get(Reference(static_cast<TensorRef::DType>(99), {2}, 8))));
}

TEST(CarrierTest, GetRefusesADifferentCarrier) {
  TensorRef reference;
  reference.set_dtype(TensorRef::DTYPE_FLOAT32);
  EXPECT_TRUE(absl::IsUnimplemented(Get(reference)));
}

}  // namespace
}  // namespace bastion::wire
