// Steps: the ring of a block in shared memory, which its threads fill with asynchronous copies and
// multiply step by step.
#ifndef BASTION_KERNELS_CUDA_PRODUCT_PRODUCT_STEPS_H_
#define BASTION_KERNELS_CUDA_PRODUCT_PRODUCT_STEPS_H_

#include "kernels/cuda/product/int8_tile.h"
#include "kernels/cuda/product/product_tile.h"

namespace bastion::kernels::cuda::product {

// The ring of a block, filled and emptied step by step.
template <typename T>
class Steps {
 public:
  // Starts the copies of the first steps: those of the weights before earlier kernels are over.
  SIMT_DEVICE Steps(const Work& work, const Share& share)
      : work_(work),
        share_(share),
        ring_(SharedAddress(DynamicShared())),
        loader_(work, share, ring_),
        next_{share.tile} {
    for (int i = 0; i < work.plan.stages - 1; ++i) {
      loader_.Weights(next_);
      next_.Advance(work, share);
    }
    WaitForEarlierKernels();  // They may still write x and read y.
    next_ = {share.tile};
    for (int i = 0; i < work.plan.stages - 1; ++i) {
      loader_.Tokens(next_);
      CommitCopies();
      next_.Advance(work, share);
    }
  }

  // Adds the next `count` steps to the sums.
  SIMT_DEVICE void Multiply(int count, WarpSums<T>& sums) {
    SIMT_ROLL
    for (int step = 0; step < count; ++step) {
      WaitForCopies(work_.plan.stages - 2);
      SyncBlock();
      loader_.Weights(next_);
      loader_.Tokens(next_);
      CommitCopies();
      next_.Advance(work_, share_);
      const uint32_t stage = ring_ + slot_ * T::kStageBytes;
      MultiplyStage<T>(stage, stage + T::kWeightBytes, sums);
      if (++slot_ == work_.plan.stages) slot_ = 0;
    }
  }

 private:
  const Work& work_;
  const Share& share_;
  const uint32_t ring_;
  Loader<T> loader_;
  Cursor next_;   // The step that is copied next.
  int slot_ = 0;  // The slot that is multiplied next.
};

}  // namespace bastion::kernels::cuda::product

#endif  // BASTION_KERNELS_CUDA_PRODUCT_PRODUCT_STEPS_H_
