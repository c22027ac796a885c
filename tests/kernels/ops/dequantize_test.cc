#include "kernels/ops/dequantize.h"

#include <cstring>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/ops/pack.h"
#include "tests/support/golden_file.h"

namespace bastion::kernels {
namespace {

constexpr BlockFormat kFormats[] = {BlockFormat::kQ4_0, BlockFormat::kQ4_1, BlockFormat::kQ5_0,
                                    BlockFormat::kQ5_1, BlockFormat::kQ8_0, BlockFormat::kQ4_K,
                                    BlockFormat::kQ5_K, BlockFormat::kQ6_K};

// Random blocks, and the floats that the `gguf` package makes of them.
struct Golden {
  std::vector<uint8_t> blocks;
  std::vector<float> floats;
};

Golden Load(BlockFormat format) {
  static const auto* const file =
      new testing::GoldenFile(BASTION_SOURCE_DIR "/tests/kernels/goldens/dequantize.safetensors");
  const std::string name = Name(format);
  const std::vector<TokenId> bytes = file->Integers(name + ".blocks");
  return {{bytes.begin(), bytes.end()}, file->Floats(name + ".floats")};
}

void ExpectSameBits(const float* actual, const float* expected, size_t count) {
  EXPECT_EQ(std::memcmp(actual, expected, count * sizeof(float)), 0);
}

class DequantizeTest : public ::testing::TestWithParam<BlockFormat> {};

TEST_P(DequantizeTest, EqualsTheGgufPackageBitForBit) {
  const Golden golden = Load(GetParam());
  const BlockShape shape = ShapeOf(GetParam());
  ASSERT_EQ(golden.blocks.size() / shape.bytes, golden.floats.size() / shape.elements);
  std::vector<float> floats(golden.floats.size());
  Dequantize(GetParam(), golden.blocks.data(), 0, static_cast<int64_t>(floats.size()),
             floats.data());
  for (size_t i = 0; i < floats.size(); ++i) ASSERT_EQ(floats[i], golden.floats[i]) << i;
  ExpectSameBits(floats.data(), golden.floats.data(), floats.size());
}

TEST_P(DequantizeTest, RangesMayBeginAndEndInsideBlocks) {
  const Golden golden = Load(GetParam());
  const auto total = static_cast<int64_t>(golden.floats.size());
  for (const int64_t first : {int64_t{1}, int64_t{31}, total / 2 + 3}) {
    for (const int64_t count : {int64_t{0}, int64_t{1}, int64_t{40}, total - first}) {
      const int64_t part = std::min(count, total - first);
      std::vector<float> floats(part + 1, 7.0f);
      Dequantize(GetParam(), golden.blocks.data(), first, part, floats.data());
      ExpectSameBits(floats.data(), golden.floats.data() + first, part);
      EXPECT_EQ(floats[part], 7.0f);
    }
  }
}

// Packing dequantizes: the panels equal those of the floats.
TEST_P(DequantizeTest, PacksLikeFloats) {
  const Golden golden = Load(GetParam());
  const int columns = ShapeOf(GetParam()).elements;
  const int rows = static_cast<int>(golden.floats.size()) / columns;
  for (const WeightFormat format : kWeightFormats) {
    PackedMatrix shape = {format, rows, columns, nullptr};
    std::vector<char> packed[2];
    ThreadPool pool(1);
    for (const bool blocks : {false, true}) {
      const SourceMatrix floats = {DType::kF32, golden.floats.data(), rows};
      const SourceMatrix stored = {DType::kF32, golden.blocks.data(), rows, GetParam()};
      packed[blocks].resize(shape.bytes());
      shape.data = packed[blocks].data();
      PackMatrix({blocks ? stored : floats}, shape, pool);
    }
    EXPECT_EQ(packed[0], packed[1]) << Name(format);
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, DequantizeTest, ::testing::ValuesIn(kFormats),
                         [](const auto& format) { return std::string(Name(format.param)); });

}  // namespace
}  // namespace bastion::kernels
