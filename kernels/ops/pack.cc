#include "kernels/ops/pack.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "common/base/check.h"
#include "kernels/ops/dequantize.h"

namespace bastion::kernels {
namespace {

// The matrix is transposed in blocks of 32 rows and this many words (see PackedMatrix), so that a
// block fits in the L1 cache.
constexpr int kBlockWords = 64;
constexpr int kMaxElements = kBlockWords * 4;  // Maximum elements in a row of a block.

// One row of the matrix, which becomes a column of a panel. `data` is null past the last row.
struct Row {
  DType type = DType::kF32;
  const void* data = nullptr;
  BlockFormat blocks = BlockFormat::kNone;
  float inverse_scale = 0;  // For int8 only.
};
using PanelRows = std::array<Row, kPanel>;

const void* At(const Row& row, int64_t k) {
  return static_cast<const char*>(row.data) + BytesPerElement(row.type) * k;
}

// Converts elements [k, k + count) of `row` to floats.
void ToFloats(const Row& row, int64_t k, int count, float* to) {
  if (row.blocks != BlockFormat::kNone) return Dequantize(row.blocks, row.data, k, count, to);
  const auto* const halves = static_cast<const uint16_t*>(At(row, k));
  switch (row.type) {
    case DType::kF32:
      std::memcpy(to, At(row, k), sizeof(float) * count);
      return;
    case DType::kBF16:
      for (int i = 0; i < count; ++i) to[i] = Bf16ToFloat(halves[i]);
      return;
    case DType::kF16:
      for (int i = 0; i < count; ++i) to[i] = HalfToFloat(halves[i]);
      return;
    default:
      LOG(FATAL) << "cannot pack weights of type " << Name(row.type);
  }
}

// Rounds to the nearest integer, ties to even: after adding 1.5 · 2^23, the lowest bits of the
// float are the integer. REQUIRES: |value| < 2^22.
int8_t Nearest(float value) {
  constexpr float kShift = 0x1.8p23f;
  return static_cast<int8_t>(__builtin_bit_cast(uint32_t, value + kShift));
}

// Converts elements [k, k + count) of `row` to `dtype`.
void Convert(const Row& row, int64_t k, int count, DType dtype, void* to) {
  if (row.type == dtype && row.blocks == BlockFormat::kNone) {
    std::memcpy(to, At(row, k), BytesPerElement(dtype) * count);
    return;
  }
  float values[kMaxElements];
  ToFloats(row, k, count, values);
  if (dtype == DType::kF32) {
    std::memcpy(to, values, sizeof(float) * count);
  } else if (dtype == DType::kBF16) {
    uint16_t rounded[kMaxElements];
    for (int i = 0; i < count; ++i) rounded[i] = FloatToBf16(values[i]);
    std::memcpy(to, rounded, sizeof(uint16_t) * count);
  } else {
    int8_t rounded[kMaxElements];
    for (int i = 0; i < count; ++i) rounded[i] = Nearest(values[i] * row.inverse_scale);
    std::memcpy(to, rounded, count);
  }
}

float LargestMagnitude(const Row& row, int columns) {
  constexpr int kLanes = 16;  // Independent maxima, to hide the latency of each comparison.
  float lanes[kLanes] = {};
  for (int k = 0; k < columns; k += kMaxElements) {
    float values[kMaxElements] = {};
    ToFloats(row, k, std::min(kMaxElements, columns - k), values);
    for (int i = 0; i < kMaxElements; i += kLanes) {
      for (int l = 0; l < kLanes; ++l) lanes[l] = std::max(lanes[l], std::abs(values[i + l]));
    }
  }
  return *std::max_element(lanes, lanes + kLanes);
}

class PanelPacker {
 public:
  PanelPacker(absl::Span<const SourceMatrix> parts, const PackedMatrix& to)
      : parts_(parts),
        to_(to),
        elements_per_word_(static_cast<int>(4 / BytesPerElement(to.dtype))) {}

  void Pack(int panel) const {
    PanelRows rows = Rows(panel);
    if (to_.dtype == DType::kInt8) SetScales(panel, rows);
    auto* const words = static_cast<uint32_t*>(const_cast<void*>(to_.data)) +
                        to_.panel_bytes() / sizeof(uint32_t) * panel;
    const int total = to_.depth() / elements_per_word_;
    for (int word = 0; word < total; word += kBlockWords) {
      PackBlock(rows, word, std::min(kBlockWords, total - word), words + size_t{kPanel} * word);
    }
    if (to_.dtype == DType::kInt8) SetSums(panel);
  }

 private:
  [[nodiscard]] PanelRows Rows(int panel) const {
    PanelRows rows;
    int first = 0;  // The first row of the part in the packed matrix.
    for (const SourceMatrix& part : parts_) {
      const size_t row_bytes = part.row_bytes(to_.columns);
      for (int i = 0; i < kPanel; ++i) {
        const int n = panel * kPanel + i - first;
        if (n < 0 || n >= part.rows) continue;
        rows[i] = {part.type, static_cast<const char*>(part.data) + row_bytes * n, part.blocks};
      }
      first += part.rows;
    }
    return rows;
  }

  void SetScales(int panel, PanelRows& rows) const {
    float* const scales = const_cast<float*>(to_.scales(panel));
    for (int i = 0; i < kPanel; ++i) {
      const float largest = rows[i].data == nullptr ? 0 : LargestMagnitude(rows[i], to_.columns);
      rows[i].inverse_scale = largest > 0 ? 127 / largest : 0;
      scales[i] = largest / 127;
    }
  }

  // Converts the words [word, word + count) of every row and stores them transposed.
  void PackBlock(const PanelRows& rows, int word, int count, uint32_t* to) const {
    alignas(64) uint32_t block[kPanel][kBlockWords] = {};
    const int k = word * elements_per_word_;
    const int elements = std::min(count * elements_per_word_, to_.columns - k);
    for (int i = 0; i < kPanel; ++i) {
      if (rows[i].data != nullptr) Convert(rows[i], k, elements, to_.dtype, block[i]);
    }
    for (int w = 0; w < count; ++w) {
      for (int i = 0; i < kPanel; ++i) to[w * kPanel + i] = block[i][w];
    }
  }

  void SetSums(int panel) const {
    const auto* const begin = static_cast<const int8_t*>(to_.data) + to_.panel_bytes() * panel;
    auto* const sums = const_cast<int32_t*>(to_.sums(panel));
    std::fill_n(sums, kPanel, 0);
    for (int k = 0; k < to_.depth(); k += 4) {
      const int8_t* const fours = begin + size_t{kPanel} * k;
      for (int i = 0; i < kPanel; ++i) {
        sums[i] += fours[4 * i] + fours[4 * i + 1] + fours[4 * i + 2] + fours[4 * i + 3];
      }
    }
  }

  const absl::Span<const SourceMatrix> parts_;
  const PackedMatrix to_;
  const int elements_per_word_;  // T of PackedMatrix.
};

}  // namespace

void PackMatrix(absl::Span<const SourceMatrix> parts, const PackedMatrix& to, ThreadPool& pool) {
  int rows = 0;
  for (const SourceMatrix& part : parts) rows += part.rows;
  CHECK_EQ(rows, to.rows) << "the rows of the parts must add up to the rows of the packed matrix";
  const PanelPacker packer(parts, to);
  pool.ParallelFor(to.panels(), [&](int64_t begin, int64_t end) {
    for (int64_t panel = begin; panel < end; ++panel) packer.Pack(static_cast<int>(panel));
  });
}

void ConvertElements(DType from_type, const void* from, int64_t count, DType to_type, void* to) {
  ConvertElements({from_type, from, 1}, 0, count, to_type, to);
}

void ConvertElements(const SourceMatrix& from, int64_t first, int64_t count, DType to_type,
                     void* to) {
  const Row row = {from.type, from.data, from.blocks};
  for (int64_t k = 0; k < count; k += kMaxElements) {
    const auto part = static_cast<int>(std::min<int64_t>(kMaxElements, count - k));
    Convert(row, first + k, part, to_type, static_cast<char*>(to) + BytesPerElement(to_type) * k);
  }
}

}  // namespace bastion::kernels
