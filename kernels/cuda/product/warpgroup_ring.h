// The ring of a block in shared memory that one thread fills with tiles (warpgroup.h), and that
// warpgroups multiply step by step.
#ifndef BASTION_KERNELS_CUDA_PRODUCT_WARPGROUP_RING_H_
#define BASTION_KERNELS_CUDA_PRODUCT_WARPGROUP_RING_H_

#include "kernels/cuda/product/product_tile.h"
#include "kernels/cuda/simt/warpgroup.h"

namespace bastion::kernels::cuda::product {

struct WarpgroupWork {
  Work work;
  TensorMap weight, x;
};

// Slots for steps, then two barriers for each slot.
template <typename T>
class Ring {
 public:
  SIMT_DEVICE explicit Ring(int stages)
      : base_((SharedAddress(DynamicShared()) + kTileAlignment - 1) / kTileAlignment *
              kTileAlignment),
        stages_(stages) {}

  SIMT_DEVICE void Initialize() const {
    for (int slot = 0; slot < stages_; ++slot) {
      InitBarrier(Filled(slot), 1);
      InitBarrier(Released(slot), T::kWarps * kWarp / kWarpgroup);
    }
    PublishBarriers();
  }
  [[nodiscard]] SIMT_DEVICE int stages() const { return stages_; }
  [[nodiscard]] SIMT_DEVICE uint32_t Weights(int slot) const {
    return base_ + slot * T::kStageBytes;
  }
  [[nodiscard]] SIMT_DEVICE uint32_t Tokens(int slot) const {
    return Weights(slot) + T::kWeightBytes;
  }
  // Its phase ends when the step of the slot has arrived.
  [[nodiscard]] SIMT_DEVICE uint32_t Filled(int slot) const {
    return Weights(stages_) + slot * kBarrierBytes;
  }
  // Its phase ends when all warpgroups have multiplied the step of the slot.
  [[nodiscard]] SIMT_DEVICE uint32_t Released(int slot) const { return Filled(stages_ + slot); }

 private:
  const uint32_t base_;
  const int stages_;
};

// Fills the ring with the steps of a block. For one thread.
template <typename T>
class Producer {
 public:
  SIMT_DEVICE Producer(const WarpgroupWork& work, const Share& share, const Ring<T>& ring)
      : work_(work), share_(share), ring_(ring) {}

  SIMT_DEVICE void Run() {
    const Work& work = work_.work;
    const int groups = work.plan.groups;
    const int steps = (work.tiles - share_.tile + groups - 1) / groups * share_.steps;
    const int first = Min(steps, ring_.stages());
    Cursor weights = {share_.tile}, tokens = {share_.tile};
    SIMT_ROLL
    for (int i = 0; i < first; ++i) {
      ArriveAndExpect(ring_.Filled(weights.slot), T::kStageBytes);
      CopyWeights(weights);
      weights.Advance(work, share_);
    }
    WaitForEarlierKernels();  // They may still write x.
    SIMT_ROLL
    for (int i = 0; i < first; ++i) {
      CopyTokens(tokens);
      tokens.Advance(work, share_);
    }
    Turn turn;
    SIMT_ROLL
    for (int i = first; i < steps; ++i) {
      WaitForPhase(ring_.Released(turn.slot), turn.parity);
      ArriveAndExpect(ring_.Filled(turn.slot), T::kStageBytes);
      CopyWeights(weights);
      CopyTokens(weights);
      weights.Advance(work, share_);
      turn.Advance(ring_.stages());
    }
  }

 private:
  [[nodiscard]] SIMT_DEVICE int Column(const Cursor& at) const {
    return (share_.first_step + at.step) * kStep;
  }
  SIMT_DEVICE void CopyWeights(const Cursor& at) const {
    const uint32_t to = ring_.Weights(at.slot), filled = ring_.Filled(at.slot);
    if (work_.work.args.activation != nullptr) {
      CopyTileOnce(to, work_.weight, filled,
                   Corner4{Column(at), 0, 0, at.tile * (T::kColumns / 16)});
    } else {
      CopyTileOnce(to, work_.weight, filled, Corner2{Column(at), at.tile * T::kColumns});
    }
  }
  SIMT_DEVICE void CopyTokens(const Cursor& at) const {
    CopyTile(ring_.Tokens(at.slot), work_.x, ring_.Filled(at.slot),
             {Column(at), share_.first_token});
  }

  const WarpgroupWork& work_;
  const Share& share_;
  const Ring<T>& ring_;
};

// Multiplies the steps of the ring. For all threads of a warpgroup.
template <typename T>
class Consumer {
 public:
  SIMT_DEVICE explicit Consumer(const Ring<T>& ring)
      : ring_(ring), weights_(Warp() / 4 * 64 * kStepBytes) {}

  // Adds the next `count` steps to the sums.
  SIMT_DEVICE void Multiply(int count, WarpSums<T>& sums) {
    int last = -1;
    SIMT_ROLL
    for (int step = 0; step < count; ++step) {
      WaitForPhase(ring_.Filled(turn_.slot), turn_.parity);
      const Operand weights = OperandAt(ring_.Weights(turn_.slot) + weights_);
      const Operand tokens = OperandAt(ring_.Tokens(turn_.slot));
      StartProducts();
      SIMT_UNROLL
      for (int part = 0; part < kStep / 16; ++part) {
        WarpgroupMultiplyAdd(sums.at[0], Part(weights, part), Part(tokens, part));
      }
      EndProducts();
      WaitProducts<1>();  // Those of the step before.
      Release(last);
      last = turn_.slot;
      turn_.Advance(ring_.stages());
    }
    WaitProducts<0>();
    Release(last);
  }

 private:
  SIMT_DEVICE void Release(int slot) const {
    if (slot >= 0 && ThreadIndex() % kWarpgroup == 0) Arrive(ring_.Released(slot));
  }

  const Ring<T>& ring_;
  const uint32_t weights_;  // Where the warpgroup's rows of W begin in a slot.
  Turn turn_;
};

}  // namespace bastion::kernels::cuda::product

#endif  // BASTION_KERNELS_CUDA_PRODUCT_WARPGROUP_RING_H_
