#include "tests/kernels/cuda/device_test_support.h"
#include "tests/kernels/oracle.h"
#include "tests/kernels/rowwise_test_support.h"

namespace bastion::kernels::cuda {
namespace {

class RowwiseTest : public DeviceTest, public testing::WithParamInterface<DType> {
 protected:
  // A bf16 result may differ from the oracle's rounding by one step.
  void ExpectClose(const std::vector<float>& actual, const std::vector<float>& expected) {
    const float tolerance = GetParam() == DType::kF32 ? 2e-6f : 8e-3f;
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      ASSERT_NEAR(actual[i], expected[i], tolerance * (1 + std::abs(expected[i]))) << "at " << i;
    }
  }
  ThreadPool pool_{1};
};

TEST_P(RowwiseTest, EmbedGathersTheRowsOfTheTokens) {
  const int vocabulary = 50, width = 320;
  const std::vector<float> table = RandomFloats(vocabulary * width, 1);
  const Typed stored(GetParam(), table);
  TestSpan span = {0, RowMask::kCausal, ChainParents(3), {0}, {7, 0, 49}};
  const TestRows rows({span}, 5, 2);
  const OnDevice<float> y(5 * width, -1.0f);
  Embed({rows.rows(), stored.data(), GetParam(), y.data(), width}, *stream_);
  Finish();
  const std::vector<float> actual = y.Read(), expected = Rounded(GetParam(), table);
  for (int i = 0; i < width; ++i) {
    EXPECT_EQ(actual[i], expected[7 * width + i]);
    EXPECT_EQ(actual[width + i], expected[i]);
    EXPECT_EQ(actual[2 * width + i], expected[49 * width + i]);
  }
}

TEST_P(RowwiseTest, GatherCopiesTheRowsOfTheList) {
  const int width = 264;
  const std::vector<float> x = Rounded(GetParam(), RandomFloats(4 * width, 1));
  const Typed from(GetParam(), x), y(GetParam(), std::vector<float>(5 * width, 7.0f));
  const std::vector<int32_t> list = {3, 0, 3, 1};
  const OnDevice<int32_t> sources(list);
  GatherRows({from.data(), sources.data(), y.data(), GetParam(), 4, width}, *stream_);
  Finish();
  const std::vector<float> actual = y.Read();
  for (size_t row = 0; row < list.size(); ++row) {
    for (int i = 0; i < width; ++i) {
      ASSERT_EQ(actual[row * width + i], x[list[row] * width + i]) << "row " << row;
    }
  }
  EXPECT_EQ(actual[4 * width], 7.0f);
}

TEST_P(RowwiseTest, NormAgreesWithTheOracleAndTapsItsInput) {
  for (const int width : {64, 320, 2560, 4096}) {
    const int rows = 5, stride = 3 * width;
    const std::vector<float> x = RandomFloats(rows * width, 2), weight = RandomFloats(width, 3);
    const OnDevice<float> input(x), scale(weight);
    const Typed y(GetParam(), std::vector<float>(rows * width));
    const Typed taps(GetParam(), std::vector<float>(rows * stride, 7.0f));
    const size_t element = Bytes(GetParam(), 1);
    RmsNorm(
        {input.data(), scale.data(), y.data(), static_cast<char*>(taps.data()) + width * element,
         stride, GetParam(), rows, width, 1e-6f},
        *stream_);
    Finish();
    std::vector<float> expected(rows * width);
    Oracle().rms_norm({x.data(), weight.data(), expected.data(), rows, width, 1e-6f}, pool_);
    ExpectClose(y.Read(), expected);
    const std::vector<float> tapped = taps.Read(), kept = Rounded(GetParam(), x);
    for (int r = 0; r < rows; ++r) {
      EXPECT_EQ(tapped[r * stride + width - 1], 7.0f);
      EXPECT_EQ(tapped[r * stride + 2 * width], 7.0f);
      for (int i = 0; i < width; ++i) {
        ASSERT_EQ(tapped[r * stride + width + i], kept[r * width + i]);
      }
    }
  }
}

TEST_P(RowwiseTest, LayerNormAgreesWithTheOracleAndTapsItsInput) {
  for (const int width : {64, 320, 2560}) {
    const int rows = 5;
    std::vector<float> x = RandomFloats(rows * width, 2);
    for (float& value : x) value += 3;
    const std::vector<float> weight = RandomFloats(width, 3), bias = RandomFloats(width, 4);
    const OnDevice<float> input(x), scale(weight), shift(bias);
    const Typed y(GetParam(), std::vector<float>(rows * width));
    const Typed taps(GetParam(), std::vector<float>(rows * width));
    LayerNorm({input.data(), scale.data(), shift.data(), y.data(), taps.data(), width, GetParam(),
               rows, width, 1e-5f},
              *stream_);
    Finish();
    std::vector<float> expected(rows * width);
    Oracle().layer_norm({x.data(), weight.data(), bias.data(), expected.data(), rows, width, 1e-5f},
                        pool_);
    ExpectClose(y.Read(), expected);
    EXPECT_EQ(taps.Read(), Rounded(GetParam(), x));
  }
}

TEST_P(RowwiseTest, GeluAgreesWithTheOracle) {
  for (const int width : {1, 300, 1280}) {
    const int rows = 3;
    const std::vector<float> x = RandomFloats(rows * width, 4, 3.0f);
    const OnDevice<float> input(x);
    const Typed y(GetParam(), std::vector<float>(rows * width));
    Gelu({input.data(), y.data(), GetParam(), rows, width}, *stream_);
    Finish();
    std::vector<float> expected(rows * width);
    Oracle().gelu({x.data(), expected.data(), rows, width}, pool_);
    ExpectClose(y.Read(), expected);
  }
}

TEST_P(RowwiseTest, ConvolveAgreesWithTheOracle) {
  ForEachConvolveCase([&](const ConvolveCase& test) {
    if (test.accumulate && GetParam() != DType::kF32) return;
    ConvolveInputs inputs(test, 3);
    const OnDevice<float> base(inputs.base), coefficients(inputs.coefficients);
    const Typed x(GetParam(), inputs.x), y(GetParam(), inputs.y);
    Convolve({x.data(), base.data(), coefficients.data() + inputs.side(), y.data(), GetParam(),
              inputs.rows, test.width, test.taps, test.group, test.block_rows, inputs.stride(),
              test.accumulate},
             *stream_);
    Finish();
    inputs.x = Rounded(GetParam(), inputs.x);
    Oracle().convolve(inputs.Args(0, 3), pool_);
    ExpectClose(y.Read(), inputs.y);
  });
}

TEST_P(RowwiseTest, ScaleAgreesWithTheOracle) {
  const int rows = 3, width = 300;
  const std::vector<float> before = RandomFloats(rows * width, 4, 30.0f);
  for (const float cap : {0.0f, 20.0f}) {
    const OnDevice<float> x(before);
    Scale({x.data(), rows, width, 0.75f, cap}, *stream_);
    Finish();
    std::vector<float> expected = before;
    Oracle().scale({expected.data(), rows, width, 0.75f, cap}, pool_);
    const std::vector<float> actual = x.Read();
    for (int i = 0; i < rows * width; ++i) ASSERT_NEAR(actual[i], expected[i], 1e-5) << before[i];
  }
}

TEST_P(RowwiseTest, ABiasIsAddedToEveryRow) {
  const int rows = 3, width = 300;
  const std::vector<float> before = RandomFloats(rows * width, 4), bias = RandomFloats(width, 5);
  const OnDevice<float> y(before), shift(bias);
  AddBias({y.data(), shift.data(), rows, width}, *stream_);
  Finish();
  const std::vector<float> after = y.Read();
  for (int i = 0; i < rows * width; ++i) EXPECT_EQ(after[i], before[i] + bias[i % width]);
}

TEST_P(RowwiseTest, SiluMulAgreesWithTheOracle) {
  for (const int width : {1, 300, 1280}) {
    const int rows = 3;
    const std::vector<float> gate_up = RandomFloats(rows * 2 * width, 4, 4.0f);
    const OnDevice<float> input(gate_up);
    const Typed y(GetParam(), std::vector<float>(rows * width));
    SiluMul({input.data(), y.data(), GetParam(), rows, width}, *stream_);
    Finish();
    std::vector<float> expected(rows * width);
    Oracle().silu_mul({gate_up.data(), expected.data(), rows, width}, pool_);
    ExpectClose(y.Read(), expected);
  }
}

// Reads an element of the oracle's keys, [pages, G, D, 16].
float CachedKey(const std::vector<float>& keys, int kv_heads, int dim, int64_t slot, int head,
                int d) {
  const int64_t page = slot / kPageTokens, token = slot % kPageTokens;
  return keys[((page * kv_heads + head) * dim + d) * kPageTokens + token];
}
// Reads an element of the device's keys, or of values, [pages, G, 16, D].
float CachedRow(const std::vector<float>& rows, int kv_heads, int dim, int64_t slot, int head,
                int d) {
  const int64_t page = slot / kPageTokens, token = slot % kPageTokens;
  return rows[((page * kv_heads + head) * kPageTokens + token) * dim + d];
}

TEST_P(RowwiseTest, QkvNormalizesRotatesAndStoresHeads) {
  struct Heads {
    int query, kv, dim;
    int rotated = 0;
    bool normed = true;
  };
  for (const Heads heads :
       {Heads{6, 2, 64}, Heads{8, 8, 128}, Heads{4, 1, 256}, Heads{6, 2, 64, 0, false},
        Heads{4, 4, 80, 20, false}, Heads{4, 2, 96, 24, true}, Heads{2, 1, 256, 2, false}}) {
    const int pages = 4, positions = 64, stride = (heads.query + 2 * heads.kv) * heads.dim;
    const TestRows rows({{13, RowMask::kAncestors, {-1, 0, 0, 1}, {3, 1}, {}},
                         {0, RowMask::kCausal, ChainParents(2), {2}, {}}},
                        6, 3);
    const std::vector<float> qkv = RandomFloats(6 * stride, 5);
    const std::vector<float> query_norm = RandomFloats(heads.dim, 6);
    const std::vector<float> key_norm = RandomFloats(heads.dim, 7);
    const std::vector<float> rope = RandomFloats(positions * heads.dim, 8);
    const OnDevice<float> input(qkv), qn(query_norm), kn(key_norm), cs(rope);
    const size_t cache_size = size_t(pages) * heads.kv * kPageTokens * heads.dim;
    const Typed keys(GetParam(), std::vector<float>(cache_size));
    const Typed values(GetParam(), std::vector<float>(cache_size));
    const Typed query(GetParam(), std::vector<float>(6 * heads.query * heads.dim));
    QkvArgs args;
    args.rows = rows.rows();
    args.key = input.data();
    args.value = input.data() + heads.kv * heads.dim;
    args.query = input.data() + 2 * heads.kv * heads.dim;
    args.query_out = query.data();
    args.query_norm = heads.normed ? qn.data() : nullptr;
    args.key_norm = heads.normed ? kn.data() : nullptr;
    args.rotary_dims = heads.rotated;
    args.cosine_sine = cs.data();
    args.cache = {GetParam(), heads.kv, heads.dim, keys.data(), values.data()};
    args.query_heads = heads.query;
    args.stride = stride;
    Qkv(args, *stream_);
    Finish();

    std::vector<float> expected_qkv = qkv, expected_keys(cache_size), expected_values(cache_size);
    kernels::QkvArgs oracle;
    oracle.key = qkv.data();
    oracle.value = qkv.data() + heads.kv * heads.dim;
    oracle.query = expected_qkv.data() + 2 * heads.kv * heads.dim;
    oracle.query_norm = heads.normed ? query_norm.data() : nullptr;
    oracle.key_norm = heads.normed ? key_norm.data() : nullptr;
    oracle.rotary_dims = heads.rotated;
    oracle.cosine_sine = rope.data();
    oracle.positions = rows.positions().data();
    oracle.slots = rows.slots().data();
    oracle.cache = {DType::kF32, heads.kv, heads.dim, expected_keys.data(), expected_values.data()};
    oracle.rows = 6;
    oracle.query_heads = heads.query;
    oracle.query_stride = oracle.kv_stride = stride;
    Oracle().qkv(oracle, pool_);

    std::vector<float> expected_query;
    for (int r = 0; r < 6; ++r) {
      const auto row = expected_qkv.begin() + r * stride + 2 * heads.kv * heads.dim;
      expected_query.insert(expected_query.end(), row, row + heads.query * heads.dim);
    }
    ExpectClose(query.Read(), expected_query);
    const std::vector<float> actual_keys = keys.Read(), actual_values = values.Read();
    std::vector<float> got, wanted;
    for (int r = 0; r < 6; ++r) {
      const int64_t slot = rows.slots()[r];
      for (int g = 0; g < heads.kv; ++g) {
        for (int d = 0; d < heads.dim; ++d) {
          got.push_back(CachedRow(actual_keys, heads.kv, heads.dim, slot, g, d));
          wanted.push_back(CachedKey(expected_keys, heads.kv, heads.dim, slot, g, d));
          got.push_back(CachedRow(actual_values, heads.kv, heads.dim, slot, g, d));
          wanted.push_back(CachedRow(expected_values, heads.kv, heads.dim, slot, g, d));
        }
      }
    }
    ExpectClose(got, wanted);
  }
}

// All rows have the same input, so that only their positions differ.
TEST_P(RowwiseTest, QueriesForSinksHaveTheirPlaceBetweenTheKeysThatTheRowSees) {
  constexpr int kHeads = 3, kDim = 64, kWidth = kHeads * kDim, kStride = kWidth + 2 * kDim;
  const TestRows rows({{12, RowMask::kCausal, ChainParents(4), {0}, {}}}, 4, 2);
  const std::vector<float> one = RandomFloats(kStride, 5);
  std::vector<float> qkv;
  for (int row = 0; row < 4; ++row) qkv.insert(qkv.end(), one.begin(), one.end());
  const OnDevice<float> input(qkv), rope(RandomFloats(16 * kDim, 8));
  const Typed cache(GetParam(), std::vector<float>(2 * kPageTokens * kDim));
  const Typed query(GetParam(), std::vector<float>(4 * kWidth)),
      sinks(GetParam(), std::vector<float>(4 * kWidth));
  QkvArgs args;
  args.rows = rows.rows();
  args.key = args.value = input.data();
  args.query = input.data() + 2 * kDim;
  args.query_out = query.data();
  args.sink_query_out = sinks.data();
  args.last_place = 14;
  args.cosine_sine = rope.data();
  args.cache = {GetParam(), 1, kDim, cache.data(), cache.data()};
  args.query_heads = kHeads;
  args.stride = kStride;
  Qkv(args, *stream_);
  Finish();
  const std::vector<float> actual = sinks.Read(), expected = query.Read();
  EXPECT_TRUE(std::equal(actual.begin(), actual.begin() + 3 * kWidth, expected.begin()));
  const auto last = actual.begin() + 3 * kWidth;  // At position 15.
  EXPECT_TRUE(std::equal(last, actual.end(), expected.begin() + 2 * kWidth));
  EXPECT_FALSE(std::equal(last, actual.end(), expected.begin() + 3 * kWidth));
}

INSTANTIATE_TEST_SUITE_P(Types, RowwiseTest, testing::Values(DType::kF32, DType::kBF16),
                         [](const auto& type) { return Name(type.param); });

}  // namespace
}  // namespace bastion::kernels::cuda
