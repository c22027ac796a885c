// Sums: the result of a product whose depth was cut into ranges (product.h), before the ranges are
// added. The kernel that reads the result adds them.
#ifndef BASTION_KERNELS_CUDA_PRODUCT_SUMS_H_
#define BASTION_KERNELS_CUDA_PRODUCT_SUMS_H_

#include <cstdint>

namespace bastion::kernels::cuda {

struct Sums {
  const float* at = nullptr;  // [S, R, N]
  int ranges = 0;             // S: 1, 2, 4 or 8. 0: there is nothing to add.
  int64_t stride = 0;         // Floats from one range to the next, R · N.
};

}  // namespace bastion::kernels::cuda

#endif  // BASTION_KERNELS_CUDA_PRODUCT_SUMS_H_
