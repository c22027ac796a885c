// The shape of a kernel launch: grid, threads per block and shared memory.
#ifndef BASTION_KERNELS_CUDA_SIMT_LAUNCH_SHAPE_H_
#define BASTION_KERNELS_CUDA_SIMT_LAUNCH_SHAPE_H_

#include <cstddef>

namespace bastion::kernels::cuda {

inline constexpr int kWarp = 32;  // Threads per warp.

// The number of blocks in each dimension, or the index of one block.
struct Grid {
  int x = 1;
  int y = 1;
  int z = 1;
};

struct LaunchShape {
  Grid grid;
  int threads = 0;    // Threads per block, a multiple of kWarp.
  size_t shared = 0;  // Shared memory per block, in bytes.
};

}  // namespace bastion::kernels::cuda

#endif  // BASTION_KERNELS_CUDA_SIMT_LAUNCH_SHAPE_H_
