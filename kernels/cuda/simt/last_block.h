// For kernels whose last block works on what all blocks have written.
#ifndef BASTION_KERNELS_CUDA_SIMT_LAST_BLOCK_H_
#define BASTION_KERNELS_CUDA_SIMT_LAST_BLOCK_H_

#include "kernels/cuda/simt/simt.h"

namespace bastion::kernels::cuda::simt {

// Whether this block is the last of `blocks` that calls this. Then it sees what the others wrote
// before. All threads of the block call this. *arrived is zero before the first launch; the last
// block resets it. `shared` is a word of shared memory, free again afterwards.
SIMT_DEVICE bool IsLastBlock(uint32_t* arrived, int blocks, int32_t* shared) {
  SyncBlock();
  if (ThreadIndex() == 0) {
    FenceDevice();
    const bool last = AtomicAdd(arrived, 1u) + 1 == static_cast<uint32_t>(blocks);
    if (last) *arrived = 0;
    *shared = last ? 1 : 0;
    FenceDevice();
  }
  SyncBlock();
  const bool last = *shared != 0;
  SyncBlock();
  return last;
}

}  // namespace bastion::kernels::cuda::simt

#endif  // BASTION_KERNELS_CUDA_SIMT_LAST_BLOCK_H_
