// How many threads a kernel is launched with.
#ifndef BASTION_KERNELS_CUDA_SIMT_LAUNCH_SHAPE_H_
#define BASTION_KERNELS_CUDA_SIMT_LAUNCH_SHAPE_H_

#include <cstddef>

namespace bastion::kernels::cuda {

inline constexpr int kWarp = 32;  // Threads that run in step.

// Blocks of a launch.
struct Grid {
  int x = 1;
  int y = 1;
  int z = 1;
};

struct LaunchShape {
  Grid grid;
  int threads = 0;    // Of a block: a multiple of kWarp.
  size_t shared = 0;  // Bytes of shared memory that a block has.
};

}  // namespace bastion::kernels::cuda

#endif  // BASTION_KERNELS_CUDA_SIMT_LAUNCH_SHAPE_H_
