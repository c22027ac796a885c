// TensorMap: how a tile of a bf16 tensor in global memory is copied to shared memory by one
// instruction (CopyTile in simt/warpgroup.h). The host makes it, and passes it to a kernel as a
// part of its arguments.
#ifndef BASTION_KERNELS_CUDA_RUNTIME_TENSOR_MAP_H_
#define BASTION_KERNELS_CUDA_RUNTIME_TENSOR_MAP_H_

#include <cstdint>

namespace bastion::kernels::cuda {

// A tensor, and the box of it that is a tile. The first dimension is contiguous, and its box has 64
// elements: 128 bytes, a row of the tile in shared memory. The other dimensions of the box, the
// second one fastest, number these rows.
struct TensorBox {
  static constexpr int kMaxRank = 4;

  const void* base = nullptr;      // Aligned to 16 bytes.
  int rank = 2;                    // 2 or 4.
  int64_t sizes[kMaxRank] = {};    // In elements. What a box has beyond them reads as zeros.
  int64_t strides[kMaxRank] = {};  // In bytes, multiples of 16; the first is not used.
  int box[kMaxRank] = {};          // In elements, at most 256.
};

// The layout is the driver's.
struct alignas(128) TensorMap {
  char bytes[128];
};

// REQUIRES: a GPU of sm_90 or later is open, or the emulator runs the kernels.
[[nodiscard]] TensorMap MakeTensorMap(const TensorBox& box);

}  // namespace bastion::kernels::cuda

#endif  // BASTION_KERNELS_CUDA_RUNTIME_TENSOR_MAP_H_
