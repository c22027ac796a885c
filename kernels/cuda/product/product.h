// Matrix products y = x Wᵀ of bf16 rows with bf16 or int8 weights, summed in fp32, whose bits do
// not depend on the number of rows. So a row of a tree gets the bits that plain decoding gives it:
//
//   1. The depth K is cut into S ranges of equal size. S depends on the shape of W only
//      (ProductRanges).
//   2. Within a range, an output is one sum, which starts from 0 and takes 16 products at a time,
//      in ascending order. The instruction that adds them is that of the GPU's architecture.
//      Int8 weights (int8_rows.h) are summed as integers, which are exact in bf16. Then the sum is
//      multiplied by the scale of its row of W, and rounded.
//   3. y = ((p0 + p1) + p2) + …, the sums of the ranges in ascending order.
//
// Everything else is free (ProductPlan): the tiles, the number of blocks, and who adds the ranges.
// While there are few rows, a product takes as long as reading W, so W is spread over all
// multiprocessors: a block takes one range of its tiles, and the next kernel adds the ranges
// (Sums). With more than kMaxTokens rows, a block takes all ranges of its tile and adds them
// itself.
#ifndef BASTION_KERNELS_CUDA_PRODUCT_PRODUCT_H_
#define BASTION_KERNELS_CUDA_PRODUCT_PRODUCT_H_

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/product/sums.h"
#include "kernels/cuda/runtime/runtime.h"

namespace bastion::kernels::cuda {

// Rows of x that a block multiplies at most.
inline constexpr int kMaxTokens = 128;

// REQUIRES: ProductSupports(depth); x and the weights are aligned to 16 bytes.
struct ProductArgs {
  const uint16_t* x = nullptr;   // [R, K]
  const void* weight = nullptr;  // [N, K]
  int rows = 0;                  // R
  int columns = 0;               // N
  int depth = 0;                 // K
  int outputs = 0;               // Only the first outputs of a row. 0: all N.
  // [R, outputs], or the sums of the ranges [S, R, outputs] if the plan is split.
  float* y = nullptr;
  bool accumulate = false;  // y += x Wᵀ. Not if the plan is split.
  // Not null: W is [2, N / 2, K], and the result is silu(first half) · second half, rounded to bf16
  // [R, N / 2]. Such a product has one range, and no y.
  uint16_t* activation = nullptr;
  // Not null: W is int8 (int8_rows.h), and its rows have these scales [N].
  const float* scales = nullptr;
};

// S, for a W of this shape.
[[nodiscard]] int ProductRanges(int columns, int depth, bool gated);
// Whether there are products of this depth: it must be a multiple of 8.
[[nodiscard]] bool ProductSupports(int depth);
// Floats of the sums of any split product.
[[nodiscard]] size_t MaxProductSums();

// How a product is divided.
struct ProductPlan {
  int ranges = 1;      // S. The bits depend on it, and on nothing else here.
  bool split = false;  // A block takes one range. False: all of them.
  int tile_columns =
      64;               // Rows of W in a tile: 64, 128 or 192. 128 if the rows need several tiles.
  int tile_tokens = 8;  // Rows of x in a tile: 8, 16, 32, 64 or 128.
  int stages = 2;  // Steps of 64 columns in the ring of shared memory, 2 to 8; 12 with warpgroups.
  int groups = 1;  // Group g of blocks takes tiles g, g + groups, … of W.
  size_t shared = 0;        // Bytes of shared memory.
  bool warpgroups = false;  // With the instructions of sm_90a (warpgroup_product.h).
};
[[nodiscard]] ProductPlan PlanProduct(const ProductArgs& args, const DeviceInfo& device);

// Returns the sums that are still to be added; none if y or the activation is complete.
Sums Product(const ProductArgs& args, const ProductPlan& plan, Stream& stream);

// y [count] = the added ranges, or y += them.
struct AddSumsArgs {
  Sums sums;
  float* y = nullptr;
  int64_t count = 0;
  bool accumulate = false;
};
void AddSums(const AddSumsArgs& args, Stream& stream);

}  // namespace bastion::kernels::cuda

#endif  // BASTION_KERNELS_CUDA_PRODUCT_PRODUCT_H_
