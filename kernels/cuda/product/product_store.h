// Stores of a tile's sums: to y, or through the activation.
#ifndef BASTION_KERNELS_CUDA_PRODUCT_PRODUCT_STORE_H_
#define BASTION_KERNELS_CUDA_PRODUCT_PRODUCT_STORE_H_

#include "kernels/cuda/product/product_tile.h"

namespace bastion::kernels::cuda::product {

// Stores the sums of a tile to y, for the rows and outputs that exist. A lane has the sums of
// adjacent rows of x, and of those 8, 16, … further.
template <typename T>
SIMT_DEVICE void Store(const Work& work, const Share& share, int tile, const WarpSums<T>& sums) {
  const ProductArgs& args = work.args;
  const int64_t outputs = args.outputs > 0 ? args.outputs : args.columns;
  const int first = tile * T::kColumns + Warp() * T::kHigh * 16 + Lane() / 4;
  const int token = share.first_token + 2 * (Lane() % 4);
  const int64_t range = work.plan.split ? share.range : 0;
  SIMT_UNROLL
  for (int i = 0; i < 2 * T::kHigh; ++i) {
    const int column = first + i * 8;
    if (column >= outputs) break;
    float* to = args.y + (range * args.rows + token) * outputs + column;
    SIMT_UNROLL
    for (int j = 0; j < T::kWide; ++j) {
      KeepOrder();
      SIMT_UNROLL
      for (int q = 0; q < 2; ++q) {
        if (token + 8 * j + q >= args.rows) break;
        const float sum = sums.at[i / 2][j][i % 2 * 2 + q];
        to[q * outputs] = args.accumulate ? to[q * outputs] + sum : sum;
      }
      to += 8 * outputs;
    }
  }
}

// Stores silu(gate) · up. The first two sums of a lane are gates, the last two their ups.
template <typename T>
SIMT_DEVICE void StoreGated(const Work& work, const Share& share, int tile,
                            const WarpSums<T>& sums) {
  const ProductArgs& args = work.args;
  const int64_t width = args.columns / 2;
  const int first = tile * (T::kColumns / 2) + Warp() * T::kHigh * 8 + Lane() / 4;
  const int token = share.first_token + 2 * (Lane() % 4);
  SIMT_UNROLL
  for (int i = 0; i < T::kHigh; ++i) {
    const int column = first + i * 8;
    if (column >= width) break;
    uint16_t* to = args.activation + token * width + column;
    SIMT_UNROLL
    for (int j = 0; j < T::kWide; ++j) {
      KeepOrder();
      SIMT_UNROLL
      for (int q = 0; q < 2; ++q) {
        if (token + 8 * j + q >= args.rows) break;
        const float gate = sums.at[i][j][q], up = sums.at[i][j][q + 2];
        simt::Store(to + q * width, gate / (1.0f + Exp(-gate)) * up);
      }
      to += 8 * width;
    }
  }
}

}  // namespace bastion::kernels::cuda::product

#endif  // BASTION_KERNELS_CUDA_PRODUCT_PRODUCT_STORE_H_
