// Packs matrices of checkpoints for products with int8 weights (int8_rows.h).
#ifndef BASTION_KERNELS_CUDA_PRODUCT_PACK_INT8_H_
#define BASTION_KERNELS_CUDA_PRODUCT_PACK_INT8_H_

#include <cstdint>

#include "kernels/ops/pack.h"

namespace bastion::kernels::cuda {

// Rows [first, first + count) of a matrix that is K = `columns` wide.
struct Int8Source {
  SourceMatrix matrix;
  int first;
  int count;
  int columns;
};

// Rounds the rows as PackMatrix does. Stores them at `rows` [count, Int8Pitch(K)], and their scales
// at `scales` [count].
void PackInt8(const Int8Source& from, uint8_t* rows, float* scales);

}  // namespace bastion::kernels::cuda

#endif  // BASTION_KERNELS_CUDA_PRODUCT_PACK_INT8_H_
