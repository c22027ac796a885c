// For kernels that read Sums.
#ifndef BASTION_KERNELS_CUDA_PRODUCT_ADD_RANGES_H_
#define BASTION_KERNELS_CUDA_PRODUCT_ADD_RANGES_H_

#include "kernels/cuda/product/sums.h"
#include "kernels/cuda/simt/simt.h"

namespace bastion::kernels::cuda {

// Loads all ranges before it adds the first two.
template <int ranges>
SIMT_DEVICE float AddAll(const Sums& sums, int64_t i) {
  float parts[ranges];
  SIMT_UNROLL
  for (int range = 0; range < ranges; ++range) parts[range] = sums.at[range * sums.stride + i];
  SIMT_UNROLL
  for (int range = 1; range < ranges; ++range) parts[0] += parts[range];
  return parts[0];
}

// Element `i` of [R, N]: ((p0 + p1) + p2) + …. REQUIRES: there are 1, 2, 4 or 8 ranges.
SIMT_DEVICE float AddRanges(const Sums& sums, int64_t i) {
  switch (sums.ranges) {
    case 1:
      return sums.at[i];
    case 2:
      return AddAll<2>(sums, i);
    case 4:
      return AddAll<4>(sums, i);
    default:
      return AddAll<8>(sums, i);
  }
}

}  // namespace bastion::kernels::cuda

#endif  // BASTION_KERNELS_CUDA_PRODUCT_ADD_RANGES_H_
