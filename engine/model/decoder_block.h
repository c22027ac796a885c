// The decoder block that all models use: pre-norm attention with grouped heads and rotary
// positions, then an MLP or experts. Models differ only in data: hub::BlockConfig and the weights.
// Thread-compatible.
#ifndef BASTION_ENGINE_MODEL_DECODER_BLOCK_H_
#define BASTION_ENGINE_MODEL_DECODER_BLOCK_H_

#include <utility>

#include "engine/model/device.h"
#include "engine/model/forward_cost.h"
#include "engine/model/weights.h"

namespace bastion::nn {

struct BlockShape {
  hub::BlockConfig form;
  int layer = 0;
  bool experts = false;  // Experts instead of an MLP.
  int window = 0;        // Positions that a row attends to, itself included. 0: all.
  bool causal = false;   // True: a kFull span is treated as kCausal.
};

// The inputs of one pass of a block, except the residual stream.
struct BlockPass {
  Activations& activations;
  const kernels::Rows& rows;
  // The positions by which queries and keys rotate: those of `rows`, or zeros.
  const kernels::Rows& rotated;
  const float* rotary = nullptr;  // The table of QkvArgs.
  kernels::KvLayer cache;         // The layer of this block.
  Tap tap = {};                   // Stores the output of the block before this one.
};

class DecoderBlock {
 public:
  DecoderBlock(BlockShape shape, BlockWeights weights)
      : shape_(std::move(shape)), weights_(std::move(weights)) {}

  // Updates the residual stream. Writes the rows' keys and values to their slots in the cache.
  void Forward(const BlockPass& pass) const;

  // Writes keys and values of context rows to the cache; no query is computed for these rows. They
  // are projected from the normed rows without the attention norm (DFlash, arXiv 2602.06036).
  void StoreContext(const BlockPass& pass) const;

  void AddCost(ForwardCost& cost) const;

 private:
  // Forward with convolutions. REQUIRES: an MLP that follows attention.
  void ForwardConvolved(const BlockPass& pass) const;
  [[nodiscard]] QkvArgs QkvOf(const BlockPass& pass) const;
  [[nodiscard]] AttendArgs AttendOf(const BlockPass& pass) const;

  BlockShape shape_;
  BlockWeights weights_;
};

}  // namespace bastion::nn

#endif  // BASTION_ENGINE_MODEL_DECODER_BLOCK_H_
