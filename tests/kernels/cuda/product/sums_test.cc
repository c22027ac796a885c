// The kernels that read the sums of a product give the bits that they give after AddSums.
#include <vector>

#include "kernels/cuda/ops.h"
#include "kernels/cuda/product/product.h"
#include "tests/kernels/cuda/device_test_support.h"

namespace bastion::kernels::cuda {
namespace {

// Sums of `count` elements in ranges, and the elements that they are added to.
struct TestSums {
  TestSums(int ranges, size_t count)
      : before(RandomFloats(count, 1)),
        parts(RandomFloats(ranges * count, 2)),
        sums{parts.data(), ranges, static_cast<int64_t>(count)} {}

  OnDevice<float> before, parts;
  Sums sums;
};

class SumsTest : public DeviceTest, public testing::WithParamInterface<int> {};

TEST_P(SumsTest, AddSumsAddsTheRangesInOrder) {
  constexpr int kCount = 1000;
  for (const bool accumulate : {false, true}) {
    const TestSums test(GetParam(), kCount);
    const std::vector<float> before = test.before.Read(), parts = test.parts.Read();
    AddSums({test.sums, test.before.data(), kCount, accumulate}, *stream_);
    Finish();
    const std::vector<float> after = test.before.Read();
    for (int i = 0; i < kCount; ++i) {
      float sum = parts[i];
      for (int range = 1; range < GetParam(); ++range) sum += parts[range * kCount + i];
      ASSERT_EQ(after[i], accumulate ? before[i] + sum : sum) << i;
    }
  }
}

// 4,608 elements are more than a block keeps in registers.
TEST_P(SumsTest, ANormAddsThemFirstAndKeepsTheResult) {
  constexpr int kRows = 3;
  for (const int width : {64, 320, 4608}) {
    const TestSums now(GetParam(), kRows * width), later(GetParam(), kRows * width);
    const OnDevice<float> weight(RandomFloats(width, 3)), bias(RandomFloats(width, 4));
    for (const bool rms : {true, false}) {
      const OnDevice<uint16_t> y(kRows * width), expected(kRows * width);
      const OnDevice<uint16_t> taps(kRows * width), expected_taps(kRows * width);
      const auto norm = [&](float* x, const Sums& added, void* to, void* tap) {
        if (rms) {
          RmsNorm({x, weight.data(), to, tap, width, DType::kBF16, kRows, width, 1e-6f, added},
                  *stream_);
        } else {
          LayerNorm({x, weight.data(), bias.data(), to, tap, width, DType::kBF16, kRows, width,
                     1e-5f, added},
                    *stream_);
        }
      };
      AddSums({now.sums, now.before.data(), kRows * width, /*accumulate=*/true}, *stream_);
      norm(now.before.data(), {}, expected.data(), expected_taps.data());
      norm(later.before.data(), later.sums, y.data(), taps.data());
      Finish();
      EXPECT_EQ(y.Read(), expected.Read()) << width;
      EXPECT_EQ(taps.Read(), expected_taps.Read()) << width;
      EXPECT_EQ(later.before.Read(), now.before.Read()) << width;
    }
  }
}

TEST_P(SumsTest, TheProjectionOfHeadsAddsThem) {
  constexpr int kHeads = 2, kRows = 3;
  for (const auto& [dim, rotated] : {std::pair{64, 0}, {96, 24}}) {
    const int stride = 3 * kHeads * dim;
    const TestRows rows({{0, RowMask::kCausal, ChainParents(kRows), {0}, {}}}, kRows, 1);
    const TestSums test(GetParam(), size_t(kRows) * stride);
    const OnDevice<float> rope(RandomFloats(16 * dim, 5)), norm(RandomFloats(dim, 6));
    const size_t cached = size_t{kHeads} * kPageTokens * dim;
    const auto project = [&](const float* qkv, int ranges) {
      const OnDevice<uint16_t> keys(cached), values(cached), query(kRows * kHeads * dim);
      QkvArgs args;
      args.rows = rows.rows();
      args.key = qkv;
      args.value = qkv + kHeads * dim;
      args.query = qkv + 2 * kHeads * dim;
      args.query_out = query.data();
      args.query_norm = args.key_norm = norm.data();
      args.cosine_sine = rope.data();
      args.cache = {DType::kBF16, kHeads, dim, keys.data(), values.data()};
      args.query_heads = kHeads;
      args.stride = stride;
      args.rotary_dims = rotated;
      args.ranges = ranges;
      args.range_stride = test.sums.stride;
      Qkv(args, *stream_);
      Finish();
      return std::vector{query.Read(), keys.Read(), values.Read()};
    };
    const auto from_sums = project(test.parts.data(), GetParam());
    AddSums({test.sums, test.before.data(), test.sums.stride}, *stream_);
    EXPECT_EQ(from_sums, project(test.before.data(), 1)) << dim;
  }
}

INSTANTIATE_TEST_SUITE_P(Ranges, SumsTest, testing::Values(1, 2, 4, 8));

}  // namespace
}  // namespace bastion::kernels::cuda
