// The formats in which GGUF files store quantized weights: blocks of successive weights of a row
// that share scales. kernels/ops/dequantize.h converts them. Thread-safe: no state.
#ifndef BASTION_COMMON_BASE_BLOCK_FORMAT_H_
#define BASTION_COMMON_BASE_BLOCK_FORMAT_H_

#include <cstddef>
#include <cstdint>

namespace bastion {

// kNone: plain elements of a DType.
enum class BlockFormat { kNone, kQ4_0, kQ4_1, kQ5_0, kQ5_1, kQ8_0, kQ4_K, kQ5_K, kQ6_K };

struct BlockShape {
  int elements = 1;  // Weights of a block.
  int bytes = 0;     // Bytes of a block.
};

// The largest block.
inline constexpr int kMaxBlockElements = 256;

// REQUIRES: `format` is not kNone.
[[nodiscard]] constexpr BlockShape ShapeOf(BlockFormat format) {
  constexpr BlockShape kShapes[] = {{},       {32, 18},   {32, 20},   {32, 22},  {32, 24},
                                    {32, 34}, {256, 144}, {256, 176}, {256, 210}};
  return kShapes[static_cast<size_t>(format)];
}

// Name in reports, e.g. "Q4_1".
[[nodiscard]] constexpr const char* Name(BlockFormat format) {
  constexpr const char* kNames[] = {"none", "Q4_0", "Q4_1", "Q5_0", "Q5_1",
                                    "Q8_0", "Q4_K", "Q5_K", "Q6_K"};
  return kNames[static_cast<size_t>(format)];
}

}  // namespace bastion

#endif  // BASTION_COMMON_BASE_BLOCK_FORMAT_H_
