#include "kernels/ops/pack.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "gtest/gtest.h"
#include "kernels/ops/round_int8.h"
#include "tests/kernels/kernel_test_support.h"

namespace bastion::kernels {
namespace {

// Elements of any type: the bytes that the packer reads, and the same values as floats. The
// conversion is exact for every type.
struct Source {
  DType type;
  std::vector<char> bytes;
  std::vector<float> values;
};

template <typename T>
std::vector<char> BytesOf(const std::vector<T>& values) {
  const char* const first = reinterpret_cast<const char*>(values.data());
  return {first, first + values.size() * sizeof(T)};
}

Source RandomSource(DType type, size_t count, uint32_t seed) {
  const std::vector<float> values = RandomFloats(count, seed, 0.1f);
  if (type == DType::kF32) return {type, BytesOf(values), values};
  if (type == DType::kBF16) {
    const std::vector<uint16_t> bits = ToBf16(values);
    std::vector<float> rounded(count);
    std::transform(bits.begin(), bits.end(), rounded.begin(), Bf16ToFloat);
    return {type, BytesOf(bits), rounded};
  }
  std::vector<_Float16> halves(values.begin(), values.end());
  return {type, BytesOf(halves), {halves.begin(), halves.end()}};
}

// Packs one element at a time, with the panel layout and rounding that types.h documents.
std::vector<char> ReferencePack(const std::vector<float>& matrix, PackedMatrix shape) {
  std::vector<char> packed(shape.bytes(), 0);
  shape.data = packed.data();
  const auto put = [&](int n, int k, auto element) {
    std::memcpy(packed.data() + shape.offset(n, k) * sizeof(element), &element, sizeof(element));
  };
  for (int n = 0; n < shape.rows; ++n) {
    const float* row = matrix.data() + size_t(n) * shape.columns;
    float largest = 0;
    for (int k = 0; k < shape.columns; ++k) largest = std::max(largest, std::abs(row[k]));
    int32_t sum = 0;
    for (int k = 0; k < shape.columns; ++k) {
      if (shape.format == WeightFormat::kF32) put(n, k, row[k]);
      if (shape.format == WeightFormat::kBF16) put(n, k, FloatToBf16(row[k]));
      if (shape.format != WeightFormat::kInt8 || largest == 0) continue;
      const auto rounded = static_cast<int8_t>(std::nearbyint(row[k] * (127 / largest)));
      put(n, k, rounded);
      sum += rounded;
    }
    if (shape.format != WeightFormat::kInt8) continue;
    const_cast<float*>(shape.scales(n / kPanel))[n % kPanel] = largest / 127;
    const_cast<int32_t*>(shape.sums(n / kPanel))[n % kPanel] = sum;
  }
  return packed;
}

// Packs with PackMatrix into memory that was not zeroed.
std::vector<char> Packed(const std::vector<SourceMatrix>& parts, PackedMatrix shape, int threads) {
  std::vector<char> memory(shape.bytes() + 64, 0x5A);
  char* const aligned = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
  shape.data = aligned;
  ThreadPool pool(threads);
  PackMatrix(parts, shape, pool);
  return {aligned, aligned + shape.bytes()};
}

constexpr DType kSources[] = {DType::kF32, DType::kBF16, DType::kF16};

TEST(PackTest, AgreesWithTheReferenceForEveryTypeAndShape) {
  for (const DType source : kSources) {
    for (const auto& [rows, columns] : std::vector<std::pair<int, int>>{
             {1, 1}, {32, 32}, {33, 31}, {40, 100}, {64, 257}, {70, 320}, {31, 1030}}) {
      const Source matrix = RandomSource(source, size_t(rows) * columns, rows + columns);
      for (const WeightFormat format : kWeightFormats) {
        const PackedMatrix shape = {format, rows, columns, nullptr};
        const std::vector<char> expected = ReferencePack(matrix.values, shape);
        for (const int threads : {1, 3}) {
          EXPECT_EQ(Packed({{source, matrix.bytes.data(), rows}}, shape, threads), expected)
              << Name(format) << " of source " << static_cast<int>(source) << ", " << rows << " x "
              << columns;
        }
      }
    }
  }
}

TEST(PackTest, PartsAreStackedAcrossPanelBoundaries) {
  constexpr int kColumns = 70;
  const std::vector<int> rows = {5, 64, 1, 30};
  std::vector<Source> sources;
  std::vector<SourceMatrix> parts;
  std::vector<float> stacked;
  for (size_t i = 0; i < rows.size(); ++i) {
    sources.push_back(RandomSource(kSources[i % 3], size_t(rows[i]) * kColumns, i));
    stacked.insert(stacked.end(), sources[i].values.begin(), sources[i].values.end());
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    parts.push_back({sources[i].type, sources[i].bytes.data(), rows[i]});
  }
  for (const WeightFormat format : kWeightFormats) {
    const PackedMatrix shape = {format, 100, kColumns, nullptr};
    EXPECT_EQ(Packed(parts, shape, 2), ReferencePack(stacked, shape)) << Name(format);
  }
}

TEST(PackTest, HalfPrecisionIsConvertedExactly) {
  std::vector<uint16_t> halves(1 << 16);
  for (size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<uint16_t>(i);
  const PackedMatrix shape = {WeightFormat::kF32, 1 << 8, 1 << 8, nullptr};
  const std::vector<char> packed = Packed({{DType::kF16, halves.data(), shape.rows}}, shape, 1);
  for (int i = 0; i < 1 << 16; ++i) {
    float actual;
    std::memcpy(&actual, packed.data() + shape.offset(i >> 8, i & 255) * sizeof(float), 4);
    const auto expected = static_cast<float>(__builtin_bit_cast(_Float16, halves[i]));
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(actual)) << i;
    } else {
      EXPECT_EQ(actual, expected) << i;
      EXPECT_EQ(std::signbit(actual), std::signbit(expected)) << i;
    }
  }
}

TEST(PackTest, RoundsToInt8WithTiesToEvenAndKeepsZeroRows) {
  // The largest value is 127, so the scale is 1.
  const std::vector<float> matrix = {127, 0.5f, 1.5f, 2.5f,  -0.5f, -1.5f, 126.5f, -127,
                                     0,   0,    0,    -0.0f, 0,     0,     0,      0};
  const std::vector<int8_t> expected = {127, 0, 2, 2, 0, -2, 126, -127};
  PackedMatrix shape = {WeightFormat::kInt8, 2, 8, nullptr};
  const std::vector<char> packed = Packed({{DType::kF32, matrix.data(), 2}}, shape, 1);
  shape.data = packed.data();
  for (int k = 0; k < 8; ++k) {
    EXPECT_EQ(static_cast<int8_t>(packed[shape.offset(0, k)]), expected[k]) << k;
    EXPECT_EQ(packed[shape.offset(1, k)], 0) << k;
  }
  EXPECT_EQ(shape.scales(0)[0], 1.0f);
  EXPECT_EQ(shape.scales(0)[1], 0.0f);
  EXPECT_EQ(shape.sums(0)[0], 128);
  EXPECT_EQ(shape.sums(0)[1], 0);
}

// Rows longer than a block of the packer, and shorter.
TEST(PackTest, ARoundedRowHasTheIntegersAndTheScaleOfThePackedOne) {
  for (const DType source : kSources) {
    for (const int columns : {1, 100, 1030}) {
      constexpr int kRows = 3;
      const Source matrix = RandomSource(source, size_t{kRows} * columns, columns);
      const SourceMatrix from = {source, matrix.bytes.data(), kRows};
      PackedMatrix shape = {WeightFormat::kInt8, kRows, columns, nullptr};
      const std::vector<char> packed = Packed({from}, shape, 1);
      shape.data = packed.data();
      std::vector<int8_t> row(columns);
      for (int n = 0; n < kRows; ++n) {
        EXPECT_EQ(RoundRow(from, n, columns, row.data()), shape.scales(0)[n]);
        for (int k = 0; k < columns; ++k) {
          ASSERT_EQ(row[k], static_cast<int8_t>(packed[shape.offset(n, k)])) << n << ", " << k;
        }
      }
    }
  }
}

TEST(PackTest, AbortsIfPartsDoNotFillTheMatrix) {
  const std::vector<float> matrix(64);
  EXPECT_DEATH(Packed({{DType::kF32, matrix.data(), 1}}, {WeightFormat::kF32, 2, 32, nullptr}, 1),
               "1 vs 2");
}

}  // namespace
}  // namespace bastion::kernels
