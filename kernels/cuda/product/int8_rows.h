// The layout of int8 weights for a GPU. A matrix [N, K] is N rows of Int8Pitch(K) bytes, followed
// by the scales of the rows, [N] floats: w = scale · integer, rounded as in kernels/ops/pack.h.
//
// A byte is its integer + 128. Each 16 columns of a row are stored in the order in which the lanes
// of a warp need them (MatrixMultiplyAdd): 0, 1, 8, 9; 2, 3, 10, 11; 4, 5, 12, 13; 6, 7, 14, 15. So
// the word that a lane gets from LoadMatrices has its four columns. A row is padded with zeros to a
// multiple of 16 columns.
#ifndef BASTION_KERNELS_CUDA_PRODUCT_INT8_ROWS_H_
#define BASTION_KERNELS_CUDA_PRODUCT_INT8_ROWS_H_

#include <cstddef>
#include <cstdint>

namespace bastion::kernels::cuda {

inline constexpr int kInt8Zero = 128;  // The byte of the integer 0.

// Bytes of a row of K columns.
constexpr int Int8Pitch(int columns) { return (columns + 15) / 16 * 16; }

// Where the scales of a matrix begin, in bytes.
constexpr size_t Int8ScalesOffset(int rows, int columns) {
  return static_cast<size_t>(rows) * Int8Pitch(columns);
}
// The scales of a matrix that begins at `weight`.
inline const float* Int8Scales(const void* weight, int rows, int columns) {
  const void* const scales = static_cast<const char*>(weight) + Int8ScalesOffset(rows, columns);
  return static_cast<const float*>(scales);
}
// Bytes of a matrix, rounded up so that another one can follow it.
constexpr size_t Int8MatrixBytes(int rows, int columns) {
  return (Int8ScalesOffset(rows, columns) + rows * sizeof(float) + 15) / 16 * 16;
}

}  // namespace bastion::kernels::cuda

#endif  // BASTION_KERNELS_CUDA_PRODUCT_INT8_ROWS_H_
