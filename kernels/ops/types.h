// The data types of the kernels: raw pointers with shapes. The caller owns the memory. No kernel
// depends on protos, and only kernels/torch depends on libtorch.
#ifndef BASTION_KERNELS_OPS_TYPES_H_
#define BASTION_KERNELS_OPS_TYPES_H_

#include <cstddef>
#include <cstdint>

#include "common/base/dtype.h"
#include "common/base/weight_format.h"

namespace bastion::kernels {

// bfloat16 is the upper half of a float. FloatToBf16 rounds to nearest, ties to even.
[[nodiscard]] inline float Bf16ToFloat(uint16_t bits) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(bits) << 16);
}
[[nodiscard]] inline uint16_t FloatToBf16(float value) {
  const auto bits = __builtin_bit_cast(uint32_t, value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return static_cast<uint16_t>((bits >> 16) | 0x40);  // NaN
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

[[nodiscard]] inline float HalfToFloat(uint16_t half) {
  constexpr uint32_t kOne = 1u << 23;  // One unit of a float's exponent.
  const uint32_t magnitude = uint32_t{half & 0x7FFFu} << 13;
  const bool is_subnormal = magnitude < kOne, is_special = magnitude >= 31 * kOne;
  // A subnormal has no implicit leading bit. So add that bit, and subtract its value as a float.
  // (Multiplying by a power of two would handle all cases, but would cost hundreds of cycles for
  // each subnormal.)
  const uint32_t rebias = is_special ? 224 * kOne : is_subnormal ? 113 * kOne : 112 * kOne;
  const float value = __builtin_bit_cast(float, magnitude + rebias) - (is_subnormal ? 0x1p-14f : 0);
  return __builtin_bit_cast(float, __builtin_bit_cast(uint32_t, value) | (half & 0x8000u) << 16);
}

// Number of floats in the widest vector in use. The keys of a page have one such vector for each
// dimension of a head. A row of a weight panel is two such vectors.
inline constexpr int kWidest = 16;
inline constexpr int kPageTokens = kWidest;  // Tokens per KV page.
inline constexpr int kPanel = 2 * kWidest;   // Columns per weight panel.
inline constexpr int kDepthStep = 32;  // The depth() of fp32 and bf16 panels is a multiple of this.

// What the panels of a weight format have beyond their weights.
struct PanelLayout {
  int depth_step = kDepthStep;  // The depth() of panels is a multiple of this.
  size_t scale_bytes = 0;       // Bytes after the weights of a panel.
};
[[nodiscard]] constexpr PanelLayout LayoutOf(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
    case WeightFormat::kBF16:
      return {};
    case WeightFormat::kInt8:
      return {4, kPanel * (sizeof(float) + sizeof(int32_t))};
  }
  return {};
}

// A weight matrix W [N, K], packed for linear(). A panel holds 32 rows of W, transposed: row n of W
// is column n % 32 of panel n / 32. K is padded with zeros to depth():
//
//   [ceil(N / 32)] panels x [K / T] x [32] x [T]     T = 1, 2, 4 in fp32, bf16, int8
//
// T successive weights of a column share one 4-byte word. A shift and a mask turn one register of
// bf16 words into the floats of two rows of k, and dot-product instructions find the two or four
// values that they combine next to each other. An int8 panel is followed by the scales of its
// columns (W = scale * int8) and the sums of the int8 values of its columns. The columns of the
// last panel past row N of W are zero. The data is aligned to 64 bytes.
struct PackedMatrix {
  WeightFormat format = WeightFormat::kF32;
  int rows = 0;     // N
  int columns = 0;  // K
  const void* data = nullptr;

  [[nodiscard]] int panels() const { return (rows + kPanel - 1) / kPanel; }
  [[nodiscard]] int depth() const {  // Rows of k per panel.
    const int step = LayoutOf(format).depth_step;
    return (columns + step - 1) / step * step;
  }
  [[nodiscard]] size_t panel_bytes() const {
    return Bytes(format, int64_t{depth()} * kPanel) + LayoutOf(format).scale_bytes;
  }
  [[nodiscard]] size_t bytes() const { return panels() * panel_bytes(); }
  // T. REQUIRES, also for offset(): a whole number of weights fills a word.
  [[nodiscard]] int per_word() const { return 32 / Bits(format); }
  // The offset of element (n, k), in elements.
  [[nodiscard]] size_t offset(int n, int k) const {
    const size_t panel = n / kPanel * (panel_bytes() * 8 / Bits(format));
    const int column = n % kPanel;
    return panel + (size_t{kPanel} * (k / per_word()) + column) * per_word() + k % per_word();
  }
  // The column scales and column sums of an int8 panel, [32] each.
  [[nodiscard]] const float* scales(int panel) const {
    const char* begin = static_cast<const char*>(data) + panel * panel_bytes();
    return reinterpret_cast<const float*>(begin + static_cast<size_t>(depth()) * kPanel);
  }
  [[nodiscard]] const int32_t* sums(int panel) const {
    return reinterpret_cast<const int32_t*>(scales(panel) + kPanel);
  }
};

// One layer of a paged KV cache. A page holds kPageTokens tokens of all G kv heads. This is the
// layout on a CPU; for a GPU see DeviceKvLayer in kernels/cuda/ops.h.
//
//   keys    [pages, G, D, 16]   one column per token, so that 16 scores are one vector
//   values  [pages, G, 16, D]   one row per token
//
// A slot is page * 16 + offset.
struct KvLayer {
  DType dtype = DType::kF32;
  int kv_heads = 0;  // G
  int head_dim = 0;  // D
  void* keys = nullptr;
  void* values = nullptr;

  [[nodiscard]] size_t page_elements() const {
    return static_cast<size_t>(kv_heads) * head_dim * kPageTokens;
  }
};

}  // namespace bastion::kernels

#endif  // BASTION_KERNELS_OPS_TYPES_H_
