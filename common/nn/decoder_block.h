// The one decoder block of every model: pre-norm attention with grouped heads, query/key norms and
// rotary positions, then a gated MLP. Differences between models are data (BlockShape, weights).
//
// Not thread-safe: scratch memory is shared by the blocks of one Decoder.
#ifndef BASTION_COMMON_NN_DECODER_BLOCK_H_
#define BASTION_COMMON_NN_DECODER_BLOCK_H_

#include "common/nn/device.h"
#include "common/nn/row_batch.h"
#include "common/nn/weights.h"

namespace bastion::nn {

struct BlockShape {
  ModelDims dims;
  float norm_epsilon = 1e-6f;
  int window = 0;       // Sliding-window attention over so many positions; 0 = all.
  bool causal = false;  // Whether a row never sees a later one of its run, even in a full block.
};

// Buffers that the blocks of a model take turns with.
struct BlockScratch {
  Scratch normed, kvq, attention, gate_up, activation;
  std::vector<kernels::AttentionSpan> spans;
};

// What one pass of a block works with besides the hidden rows.
struct BlockPass {
  const Device& device;
  const RowBatch& batch;
  kernels::KvLayer cache;  // The block's own layer.
  const Buffer& rope;      // [positions, D]: cosines, then sines.
  BlockScratch& scratch;
};

class DecoderBlock {
 public:
  DecoderBlock(const BlockShape& shape, BlockWeights weights)
      : shape_(shape), weights_(std::move(weights)) {}

  // x [R, C] in place; writes the rows' keys and values to their slots of the cache.
  void Forward(const BlockPass& pass, float* x) const;

  // Keys and values of context rows that are not attended from: projected from `context` [R, C]
  // without the attention norm (DFlash; method.md §4).
  void StoreContext(const BlockPass& pass, const float* context) const;

  void AddCost(ForwardCost& cost) const;

 private:
  [[nodiscard]] kernels::QkvArgs QkvOf(const BlockPass& pass) const;
  // The batch's spans, or `changed` where this block is causal whatever they say.
  [[nodiscard]] const std::vector<kernels::AttentionSpan>& SpansOf(
      const RowBatch& batch, std::vector<kernels::AttentionSpan>& changed) const;

  BlockShape shape_;
  BlockWeights weights_;
};

}  // namespace bastion::nn

#endif  // BASTION_COMMON_NN_DECODER_BLOCK_H_
