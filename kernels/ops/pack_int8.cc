// int8: each row gets the scale max|w| / 127.
#include <cmath>

#include "kernels/ops/panel_rows.h"
#include "kernels/ops/round_int8.h"

namespace bastion::kernels {
namespace {

// Rounds to the nearest integer, ties to even: after adding 1.5 · 2^23, the lowest bits of the
// float are the integer. REQUIRES: |value| < 2^22.
int8_t Nearest(float value) {
  constexpr float kShift = 0x1.8p23f;
  return static_cast<int8_t>(__builtin_bit_cast(uint32_t, value + kShift));
}

float LargestMagnitude(const PanelRow& row, int columns) {
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

// What a row with this largest magnitude is multiplied by before it is rounded.
float InverseScale(float largest) { return largest > 0 ? 127 / largest : 0; }

// Rounds elements [k, k + count) of a row.
void RoundPart(const PanelRow& row, int k, int count, float inverse_scale, int8_t* to) {
  float values[kMaxElements];
  ToFloats(row, k, count, values);
  for (int j = 0; j < count; ++j) to[j] = Nearest(values[j] * inverse_scale);
}

void SetSums(const PackedMatrix& to, int panel) {
  const auto* const begin = static_cast<const int8_t*>(to.data) + to.panel_bytes() * panel;
  auto* const sums = const_cast<int32_t*>(to.sums(panel));
  std::fill_n(sums, kPanel, 0);
  for (int k = 0; k < to.depth(); k += 4) {
    const int8_t* const fours = begin + size_t{kPanel} * k;
    for (int i = 0; i < kPanel; ++i) {
      sums[i] += fours[4 * i] + fours[4 * i + 1] + fours[4 * i + 2] + fours[4 * i + 3];
    }
  }
}

}  // namespace

void PackInt8Panel(const PanelRows& rows, const PackedMatrix& to, int panel) {
  float* const scales = const_cast<float*>(to.scales(panel));
  float inverse_scales[kPanel];
  for (int i = 0; i < kPanel; ++i) {
    const float largest = rows[i].data == nullptr ? 0 : LargestMagnitude(rows[i], to.columns);
    inverse_scales[i] = InverseScale(largest);
    scales[i] = largest / 127;
  }
  PackWords(rows, to, panel, [&](int i, int k, int count, void* words) {
    RoundPart(rows[i], k, count, inverse_scales[i], static_cast<int8_t*>(words));
  });
  SetSums(to, panel);
}

float RoundRow(const SourceMatrix& from, int row, int columns, int8_t* to) {
  const auto* const data = static_cast<const char*>(from.data) + from.row_bytes(columns) * row;
  const PanelRow source = {from.type, data, from.blocks};
  const float largest = LargestMagnitude(source, columns);
  for (int k = 0; k < columns; k += kMaxElements) {
    RoundPart(source, k, std::min(kMaxElements, columns - k), InverseScale(largest), to + k);
  }
  return largest / 127;
}

}  // namespace bastion::kernels
