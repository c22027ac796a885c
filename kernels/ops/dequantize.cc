#include "kernels/ops/dequantize.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/ops/types.h"

// The compiler must not fuse products and sums: cmake/BastionToolchain.cmake turns that off.
namespace bastion::kernels {
namespace {

constexpr int kSmall = 32;         // Elements of the blocks without "K".
constexpr int kLarge = 256;        // Elements of the blocks with "K".
constexpr int kGroups = 8;         // Q4_K and Q5_K: groups of 32 elements with own scales.
constexpr int kPackedScales = 12;  // Bytes of 8 scales and 8 minima of 6 bits each.

float HalfAt(const uint8_t* bytes) {
  uint16_t half;
  std::memcpy(&half, bytes, sizeof(half));
  return HalfToFloat(half);
}

// The low four bits of 16 bytes are elements 0 to 15, the high four bits are elements 16 to 31. The
// fifth bit of element i is bit i of `fifth`.
int SmallElement(const uint8_t* nibbles, uint32_t fifth, int i) {
  const int low = i < kSmall / 2 ? nibbles[i] & 15 : nibbles[i - kSmall / 2] >> 4;
  return low | static_cast<int>(fifth >> i & 1) << 4;
}

uint32_t FifthBits(const uint8_t* bytes) {
  uint32_t bits;
  std::memcpy(&bits, bytes, sizeof(bits));
  return bits;
}

// Q4_0 and Q5_0: scale, then elements with an offset.
void CenteredBlock(const uint8_t* block, bool five, float* to) {
  const float scale = HalfAt(block);
  const uint32_t fifth = five ? FifthBits(block + 2) : 0;
  const uint8_t* const nibbles = block + (five ? 6 : 2);
  const int offset = five ? 16 : 8;
  for (int i = 0; i < kSmall; ++i) {
    to[i] = scale * static_cast<float>(SmallElement(nibbles, fifth, i) - offset);
  }
}

// Q4_1 and Q5_1: scale, minimum, then elements.
void ShiftedBlock(const uint8_t* block, bool five, float* to) {
  const float scale = HalfAt(block), minimum = HalfAt(block + 2);
  const uint32_t fifth = five ? FifthBits(block + 4) : 0;
  const uint8_t* const nibbles = block + (five ? 8 : 4);
  for (int i = 0; i < kSmall; ++i) {
    to[i] = scale * static_cast<float>(SmallElement(nibbles, fifth, i)) + minimum;
  }
}

void Q8Block(const uint8_t* block, float* to) {
  const float scale = HalfAt(block);
  for (int i = 0; i < kSmall; ++i) {
    to[i] = static_cast<float>(static_cast<int8_t>(block[2 + i])) * scale;
  }
}

// The scales and minima of a Q4_K or Q5_K block. Groups 0 to 3 have six bits in one byte. Groups 4
// to 7 have the low four bits in the last bytes, and the high two in the bytes of groups 0 to 3.
struct GroupScales {
  std::array<int, kGroups> scales;
  std::array<int, kGroups> minima;
};

GroupScales UnpackScales(const uint8_t* packed) {
  GroupScales unpacked;
  for (int i = 0; i < 4; ++i) {
    const int scale = packed[i], minimum = packed[4 + i], both = packed[8 + i];
    unpacked.scales[i] = scale & 63;
    unpacked.minima[i] = minimum & 63;
    unpacked.scales[4 + i] = (both & 15) | (scale >> 2 & 48);
    unpacked.minima[4 + i] = both >> 4 | (minimum >> 2 & 48);
  }
  return unpacked;
}

// Q4_K and Q5_K. 32 bytes hold the low four bits of two groups. Bit g of byte i of the 32 bytes
// before them is the fifth bit of element i of group g.
void GroupedBlock(const uint8_t* block, bool five, float* to) {
  const float scale = HalfAt(block), minimum = HalfAt(block + 2);
  const GroupScales groups = UnpackScales(block + 4);
  const uint8_t* const fifth = block + 4 + kPackedScales;
  const uint8_t* const nibbles = fifth + (five ? kSmall : 0);
  for (int g = 0; g < kGroups; ++g) {
    const float group_scale = scale * static_cast<float>(groups.scales[g]);
    const float group_minimum = minimum * static_cast<float>(groups.minima[g]);
    for (int i = 0; i < kSmall; ++i) {
      int element = nibbles[g / 2 * kSmall + i] >> g % 2 * 4 & 15;
      if (five) element |= (fifth[i] >> g & 1) << 4;
      to[g * kSmall + i] = group_scale * static_cast<float>(element) - group_minimum;
    }
  }
}

// Q6_K: 128 bytes with the low four bits, 64 bytes with the high two, 16 scales, one scale. Each
// half of the block has half of the bytes.
void Q6Block(const uint8_t* block, float* to) {
  constexpr int kHalf = kLarge / 2;
  const uint8_t* const high = block + kHalf;
  const uint8_t* const scales = high + kLarge / 4;
  const float scale = HalfAt(scales + kLarge / 16);
  for (int i = 0; i < kLarge; ++i) {
    const int half = i / kHalf, within = i % kHalf;
    const int low = block[half * kHalf / 2 + within % 64] >> within / 64 * 4 & 15;
    const int upper = high[half * kHalf / 4 + within % 32] >> within / 32 * 2 & 3;
    const float group = scale * static_cast<float>(static_cast<int8_t>(scales[i / 16]));
    to[i] = group * static_cast<float>((low | upper << 4) - 32);
  }
}

void DequantizeBlock(BlockFormat format, const uint8_t* block, float* to) {
  switch (format) {
    case BlockFormat::kNone:
      return;
    case BlockFormat::kQ4_0:
    case BlockFormat::kQ5_0:
      return CenteredBlock(block, format == BlockFormat::kQ5_0, to);
    case BlockFormat::kQ4_1:
    case BlockFormat::kQ5_1:
      return ShiftedBlock(block, format == BlockFormat::kQ5_1, to);
    case BlockFormat::kQ8_0:
      return Q8Block(block, to);
    case BlockFormat::kQ4_K:
    case BlockFormat::kQ5_K:
      return GroupedBlock(block, format == BlockFormat::kQ5_K, to);
    case BlockFormat::kQ6_K:
      return Q6Block(block, to);
  }
}

}  // namespace

void Dequantize(BlockFormat format, const void* blocks, int64_t first, int64_t count, float* to) {
  const BlockShape shape = ShapeOf(format);
  const auto* const bytes = static_cast<const uint8_t*>(blocks);
  float values[kMaxBlockElements];
  for (const int64_t end = first + count; first < end;) {
    const int64_t block = first / shape.elements, skipped = first % shape.elements;
    const int64_t part = std::min(shape.elements - skipped, end - first);
    const bool whole = part == shape.elements;
    DequantizeBlock(format, bytes + block * shape.bytes, whole ? to : values);
    if (!whole) std::copy_n(values + skipped, part, to);
    first += part;
    to += part;
  }
}

}  // namespace bastion::kernels
