// Primitives of sm_90a, with which one thread of a block fills shared memory and warpgroups
// multiply it, without a barrier of the whole block:
//
// - A phase barrier in shared memory (8 bytes). Its phase ends once `arrivals` threads have arrived
//   and all bytes that were announced are there. Phases alternate between parity 0 and 1.
// - Copies of tiles (runtime/tensor_map.h), which report their bytes to a phase barrier. Row r of a
//   tile has its piece of 16 bytes p at r · 128 + (p ^ r % 8) · 16. Tiles begin at multiples of
//   1,024 bytes.
// - Products of a warpgroup, four warps: d += a · bᵀ with 64 rows of `a` and N rows of `b`, both in
//   tiles, and 16 columns of them. They run asynchronously. `a` may be in registers instead. Then a
//   product d += a · b with 16 rows of `b` is possible, too (Transposed).
//
// simt.h describes the other primitives. Without them (SIMT_WARPGROUPS is 0), kernels that use them
// must compile, but are not launched.
#ifndef BASTION_KERNELS_CUDA_SIMT_WARPGROUP_H_
#define BASTION_KERNELS_CUDA_SIMT_WARPGROUP_H_

#include "kernels/cuda/runtime/tensor_map.h"
#include "kernels/cuda/simt/simt.h"

namespace bastion::kernels::cuda {

inline constexpr int kWarpgroup = 4 * kWarp;  // Threads.
inline constexpr int kTileAlignment = 1024;   // Bytes.
inline constexpr int kBarrierBytes = 8;

// Where a tile begins in a tensor of two or four dimensions: an element for each dimension, the
// contiguous one first.
struct Corner2 {
  int x, y;
};
struct Corner4 {
  int x, y, z, w;
};

// Whether a GPU of this compute capability (90 is 9.0) has the primitives.
constexpr bool HasWarpgroups(int capability) { return capability == 90; }

}  // namespace bastion::kernels::cuda

#ifdef __CUDACC__
#include "kernels/cuda/simt/warpgroup_nvcc.h"
#else
#include "kernels/cuda/simt/warpgroup_emulated.h"
#endif

namespace bastion::kernels::cuda::simt {

// The slots of a ring in turn, and the parity of the phase that each is in.
struct Turn {
  int slot = 0;
  uint32_t parity = 0;

  SIMT_DEVICE void Advance(int slots) {
    if (++slot < slots) return;
    slot = 0;
    parity ^= 1;
  }
};

}  // namespace bastion::kernels::cuda::simt

#endif  // BASTION_KERNELS_CUDA_SIMT_WARPGROUP_H_
