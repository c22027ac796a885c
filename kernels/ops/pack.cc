#include "kernels/ops/pack.h"

#include <algorithm>
#include <cstring>

#include "common/base/check.h"
#include "kernels/ops/dequantize.h"
#include "kernels/ops/panel_rows.h"

namespace bastion::kernels {
namespace {

const void* At(const PanelRow& row, int64_t k) {
  return static_cast<const char*>(row.data) + Bytes(row.type, k);
}

// The rows of panel number `panel` of `to`.
PanelRows RowsOf(absl::Span<const SourceMatrix> parts, const PackedMatrix& to, int panel) {
  PanelRows rows;
  const int begin = panel * kPanel, end = begin + kPanel;
  int first = 0;  // The first row of the part in the packed matrix.
  for (const SourceMatrix& part : parts) {
    if (first >= end) break;
    if (first + part.rows <= begin) {
      first += part.rows;
      continue;
    }
    const size_t row_bytes = part.row_bytes(to.columns);
    for (int i = 0; i < kPanel; ++i) {
      const int n = begin + i - first;
      if (n < 0 || n >= part.rows) continue;
      rows[i] = {part.type, static_cast<const char*>(part.data) + row_bytes * n, part.blocks};
    }
    first += part.rows;
  }
  return rows;
}

}  // namespace

void ToFloats(const PanelRow& row, int64_t k, int count, float* to) {
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

void ConvertRow(const PanelRow& row, int64_t k, int count, DType type, void* to) {
  if (row.type == type && row.blocks == BlockFormat::kNone) {
    std::memcpy(to, At(row, k), Bytes(type, count));
    return;
  }
  float values[kMaxElements];
  ToFloats(row, k, count, values);
  if (type == DType::kF32) {
    std::memcpy(to, values, sizeof(float) * count);
    return;
  }
  uint16_t rounded[kMaxElements];
  for (int i = 0; i < count; ++i) rounded[i] = FloatToBf16(values[i]);
  std::memcpy(to, rounded, sizeof(uint16_t) * count);
}

void PackFloatPanel(const PanelRows& rows, const PackedMatrix& to, int panel) {
  const DType type = to.format == WeightFormat::kF32 ? DType::kF32 : DType::kBF16;
  PackWords(rows, to, panel, [&](int i, int k, int count, void* words) {
    ConvertRow(rows[i], k, count, type, words);
  });
}

void PackMatrix(absl::Span<const SourceMatrix> parts, const PackedMatrix& to, ThreadPool& pool) {
  int rows = 0;
  for (const SourceMatrix& part : parts) rows += part.rows;
  CHECK_EQ(rows, to.rows) << "the rows of the parts must add up to the rows of the packed matrix";
  const PackPanel pack = PackFunctionOf(to.format);
  pool.ParallelFor(to.panels(), [&](int64_t begin, int64_t end) {
    for (int panel = static_cast<int>(begin); panel < end; ++panel) {
      pack(RowsOf(parts, to, panel), to, panel);
    }
  });
}

void ConvertElements(DType from_type, const void* from, int64_t count, DType to_type, void* to) {
  ConvertElements({from_type, from, 1}, 0, count, to_type, to);
}

void ConvertElements(const SourceMatrix& from, int64_t first, int64_t count, DType to_type,
                     void* to) {
  const PanelRow row = {from.type, from.data, from.blocks};
  for (int64_t k = 0; k < count; k += kMaxElements) {
    const auto part = static_cast<int>(std::min<int64_t>(kMaxElements, count - k));
    ConvertRow(row, first + k, part, to_type, static_cast<char*>(to) + Bytes(to_type, k));
  }
}

}  // namespace bastion::kernels
