// Products of bf16 rows of each expert by the expert's matrix, in bf16 or int8. The bits of a row
// do not depend on the other rows of the step, nor on the experts that they choose: a product has
// one range (product.h), whatever its shape.
//
// One range is enough. A token of Qwen3-30B-A3B chooses 8 of 128 experts, so even a step of one row
// reads 8 matrices: 128 tiles of 96 rows of gate and up, and 128 tiles of 128 rows of down. A GPU
// with 132 multiprocessors reads them in one wave. More ranges would only add sums to store and to
// load again. The product of gate and up could not have them anyway, because it ends with the
// activation.
#ifndef BASTION_KERNELS_CUDA_PRODUCT_EXPERT_PRODUCT_H_
#define BASTION_KERNELS_CUDA_PRODUCT_EXPERT_PRODUCT_H_

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/runtime/runtime.h"

namespace bastion::kernels::cuda {

// Rows that a block multiplies at once, at most.
inline constexpr int kMaxExpertRows = 64;

// Rows that a block multiplies at once: places [first, first + count) of an expert.
struct alignas(16) ExpertRows {
  int32_t expert;
  int32_t first;
  int32_t count;  // 1 to kMaxExpertRows.
  int32_t unused;
};

// The largest number of ExpertRows, for R rows that choose k of E experts each.
[[nodiscard]] int MaxExpertTiles(int rows, int chosen, int experts_total);

// y[place] = x[sources[place]] Wᵀ for every place in `tiles`, with the matrix of its expert.
// REQUIRES: ProductSupports(depth); x and the weights are aligned to 16 bytes.
struct ExpertProductArgs {
  const uint16_t* x = nullptr;          // [R, K]; [R k, K] without sources
  const int32_t* sources = nullptr;     // [R k], or null: place p has row p of x.
  const void* weight = nullptr;         // [E, N, K], or E int8 matrices (Int8MatrixBytes)
  bool int8 = false;                    // Whether the weights are int8 (int8_rows.h).
  const ExpertRows* tiles = nullptr;    // [tile_capacity]
  const int32_t* tile_count = nullptr;  // [1]
  int tile_capacity = 0;                // MaxExpertTiles(…)
  int chosen = 0;                       // k
  int columns = 0;                      // N
  int depth = 0;                        // K
  float* y = nullptr;                   // [R k, N]
  // Not null: a W is [2, N / 2, K], and the result is silu(first half) · second half, rounded to
  // bf16 [R k, N / 2]. Such a product has no y.
  uint16_t* activation = nullptr;
};

// How the products are divided. The bits do not depend on it.
struct ExpertPlan {
  int tile_columns = 64;  // Rows of W in a tile: 64, 96 or 128.
  int stages = 2;         // Steps of 64 columns in the ring of shared memory, 2 to 8.
  int blocks = 1;         // Block b takes items b, b + blocks, … (expert_product.cu).
  size_t shared = 0;      // Bytes of shared memory.
};
// The columns of a tile depend on the shape of the matrices only, so that all numbers of rows use
// one kernel.
[[nodiscard]] ExpertPlan PlanExperts(const ExpertProductArgs& args, const DeviceInfo& device);

void ExpertProduct(const ExpertProductArgs& args, const ExpertPlan& plan, Stream& stream);

}  // namespace bastion::kernels::cuda

#endif  // BASTION_KERNELS_CUDA_PRODUCT_EXPERT_PRODUCT_H_
