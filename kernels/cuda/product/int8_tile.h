// The parts of product.cu for int8 weights (int8_rows.h). A warp turns the integers into bf16,
// which is exact, and multiplies a sum by the scales of its rows of W at the end of a range.
#ifndef BASTION_KERNELS_CUDA_PRODUCT_INT8_TILE_H_
#define BASTION_KERNELS_CUDA_PRODUCT_INT8_TILE_H_

#include "kernels/cuda/product/product_tile.h"

namespace bastion::kernels::cuda::product {

// Operands of the matrix instruction are the integers / 64.
inline constexpr float kInt8Unit = 64;

// Turns the four bytes of `word` into two pairs of bf16, integers / 64. A byte b is the bf16 number
// b · 2^-133, which is subnormal below 128, and (b · 2^-133) · 2^127 - 2 = (b - 128) / 64. All
// these numbers have at most eight bits, so nothing is rounded.
SIMT_DEVICE void UnpackInt8(uint32_t word, uint32_t& first, uint32_t& second) {
  constexpr uint32_t kScales = 0x7F007F00, kShifts = 0xC000C000;  // Pairs of 2^127, and of -2.
  first = FusedMultiplyAddBf16(SelectBytes(word, 0, 0x4140), kScales, kShifts);
  second = FusedMultiplyAddBf16(SelectBytes(word, 0, 0x4342), kScales, kShifts);
}

// MultiplyStep with int8 weights.
template <typename T>
SIMT_DEVICE void MultiplyInt8Step(uint32_t weights, uint32_t tokens, WarpSums<T>& sums) {
  const int row = Lane() / 8 % 2 * 8 + Lane() % 8;
  uint32_t x[T::kWide == 1 ? 4 : T::kWide][2];
  if constexpr (T::kWide == 1) LoadStepTokens(tokens, x);
  SIMT_UNROLL_BY(T::kWide > 8 ? 1 : 2)  // Wide tiles have no registers to spare.
  for (int half = 0; half < 2; ++half) {
    uint32_t w[T::kHigh][4];  // The words of 32 columns, two for each 16.
    SIMT_UNROLL
    for (int i = 0; i < T::kHigh; ++i) {
      LoadMatrices(w[i], weights + PlaceInt8(row, 2 * half + Lane() / 16) + i * 16 * kStep);
    }
    SIMT_UNROLL
    for (int part = 0; part < 2; ++part) {
      if constexpr (T::kWide > 1) LoadTokens<T>(tokens, 2 * half + part, x);
      SIMT_UNROLL
      for (int i = 0; i < T::kHigh; ++i) {
        uint32_t a[4];
        UnpackInt8(w[i][2 * part], a[0], a[2]);
        UnpackInt8(w[i][2 * part + 1], a[1], a[3]);
        SIMT_UNROLL
        for (int j = 0; j < T::kWide; ++j) {
          const auto& pair = x[T::kWide == 1 ? 2 * half + part : j];
          MatrixMultiplyAdd(sums.at[i][j], a, pair[0], pair[1]);
        }
      }
    }
  }
}

// MultiplyStep for the warp's rows of the tile whose weights begin at `weights`.
template <typename T>
SIMT_DEVICE void MultiplyStage(uint32_t weights, uint32_t tokens, WarpSums<T>& sums) {
  weights += Warp() * T::kHigh * 16 * T::kWeightRowBytes;
  if constexpr (T::kWeightSize == 1) {
    MultiplyInt8Step<T>(weights, tokens, sums);
  } else {
    MultiplyStep<T>(weights, tokens, sums);
  }
}

// The scales of the rows of W whose sums a lane has. Nothing for bf16.
template <typename T>
class RowScales {
 public:
  // The scales begin `offset` floats after args.scales.
  SIMT_DEVICE RowScales(const ProductArgs& args, int64_t offset, int tile) {
    if constexpr (T::kWeightSize == 1) {
      SIMT_UNROLL
      for (int i = 0; i < 2 * T::kHigh; ++i) {
        const int first = Warp() * T::kHigh * 16 + Lane() / 4;
        const int row = WeightRow(args, T::kColumns, tile, first + i * 8);
        at_[i] = row < 0 ? 0 : kInt8Unit * args.scales[offset + row];
      }
    }
  }
  // Multiplies the sums by the scales.
  SIMT_DEVICE void Apply(WarpSums<T>& sums) const {
    if constexpr (T::kWeightSize == 1) {
      SIMT_UNROLL
      for (int i = 0; i < T::kHigh; ++i) {
        SIMT_UNROLL
        for (int j = 0; j < T::kWide; ++j) {
          SIMT_UNROLL
          for (int q = 0; q < 4; ++q) {
            sums.at[i][j][q] = simt::Multiply(sums.at[i][j][q], at_[2 * i + q / 2]);
          }
        }
      }
    }
  }

 private:
  float at_[T::kWeightSize == 1 ? 2 * T::kHigh : 1];
};

}  // namespace bastion::kernels::cuda::product

#endif  // BASTION_KERNELS_CUDA_PRODUCT_INT8_TILE_H_
