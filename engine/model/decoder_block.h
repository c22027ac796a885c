// The decoder block that all models use: pre-norm attention with grouped heads and rotary
// positions, then an MLP. Models differ only in data: hub::BlockConfig and the weights.
//
// Not thread-safe: the blocks of one Decoder share scratch memory.
#ifndef BASTION_ENGINE_MODEL_DECODER_BLOCK_H_
#define BASTION_ENGINE_MODEL_DECODER_BLOCK_H_

#include "engine/model/device.h"
#include "engine/model/experts.h"
#include "engine/model/norm.h"
#include "engine/model/row_batch.h"
#include "engine/model/streaming_attention.h"
#include "engine/model/weights.h"

namespace bastion::nn {

struct BlockShape {
  ModelDims dims;
  hub::BlockConfig form;
  bool experts = false;  // Experts instead of an MLP.
  int window = 0;        // Positions that a row attends to, itself included. 0: all.
  bool causal = false;   // True: a kFull span is treated as kCausal.
  bool rotary = true;    // False: queries and keys do not rotate.
  StreamingWindow streaming = {};
};

// Buffers that the blocks of a model share. Only one block uses them at a time.
struct BlockScratch {
  Scratch normed, kvq, attention, gate_up, activation;
  std::vector<kernels::AttentionSpan> spans;
  std::vector<Position> no_positions;  // [R] zeros, for blocks without rotary embedding.
  ExpertScratch experts;
  StreamingScratch streaming;
};

// Inputs of one pass of a block, except the hidden rows.
struct BlockPass {
  const Device& device;
  const RowBatch& batch;
  kernels::KvLayer cache;  // The layer of this block.
  const Buffer& rope;      // [positions, rotated elements of a head]: cosines, then sines.
  BlockScratch& scratch;
};

class DecoderBlock {
 public:
  DecoderBlock(const BlockShape& shape, BlockWeights weights);

  // Updates x [R, C] in place. Writes the rows' keys and values to their slots in the cache.
  // Returns how many experts the rows chose, 0 for a block with an MLP.
  int Forward(const BlockPass& pass, float* x) const;

  // Writes keys and values of context rows to the cache; no query is computed for these rows. They
  // are projected from `context` [R, C] without the attention norm (DFlash, arXiv 2602.06036).
  void StoreContext(const BlockPass& pass, const float* context) const;

  void AddCost(ForwardCost& cost) const;

 private:
  // y = norm(x), for the rows of the pass.
  void Norm(const BlockPass& pass, const NormWeights& weights, const float* x, float* y) const;
  [[nodiscard]] kernels::QkvArgs QkvOf(const BlockPass& pass) const;
  // Computes the attention of the normed rows [R, C]. Returns [R, H D] in scratch memory.
  const float* Attend(const BlockPass& pass, const float* normed) const;
  // x [R, C] += mlp(normed [R, C]).
  void AddMlp(const BlockPass& pass, const float* normed, float* x) const;
  // Returns the batch's spans. A causal block replaces kFull with kCausal in a copy, stores the
  // copy in `changed` and returns it.
  [[nodiscard]] const std::vector<kernels::AttentionSpan>& SpansOf(
      const RowBatch& batch, std::vector<kernels::AttentionSpan>& changed) const;

  BlockShape shape_;
  BlockWeights weights_;
  std::vector<float> no_rotation_;  // [rotated elements]: ones, then zeros. Empty if it rotates.
};

}  // namespace bastion::nn

#endif  // BASTION_ENGINE_MODEL_DECODER_BLOCK_H_
