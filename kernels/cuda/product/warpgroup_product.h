// Products with the instructions of sm_90a (warpgroup.h): one thread of a block fills the ring, and
// warpgroups multiply it. They give the bits of product.cu's kernels on the same GPU.
#ifndef BASTION_KERNELS_CUDA_PRODUCT_WARPGROUP_PRODUCT_H_
#define BASTION_KERNELS_CUDA_PRODUCT_WARPGROUP_PRODUCT_H_

#include "kernels/cuda/product/product_tile.h"
#include "kernels/cuda/runtime/runtime.h"

namespace bastion::kernels::cuda::product {

// REQUIRES: work.plan.warpgroups.
void LaunchWarpgroups(const Work& work, Stream& stream);

}  // namespace bastion::kernels::cuda::product

#endif  // BASTION_KERNELS_CUDA_PRODUCT_WARPGROUP_PRODUCT_H_
