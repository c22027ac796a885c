// Decoder: a stack of decoder blocks with its rotary table and KV cache. Vocabulary: the embedding
// and the LM head, which a target owns and a block-diffusion drafter borrows from the target.
//
// Not thread-safe: one forward at a time.
#ifndef BASTION_ENGINE_MODEL_DECODER_H_
#define BASTION_ENGINE_MODEL_DECODER_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/hub/model_config.h"
#include "engine/model/decoder_block.h"
#include "engine/model/kv_cache.h"

namespace bastion::nn {

class Decoder {
 public:
  // Loads the blocks and the final norm, by the names in config.names. The matrices are empty until
  // the loader's PackingPlan has run.
  static absl::StatusOr<std::unique_ptr<Decoder>> Load(const WeightLoader& loader,
                                                       const hub::ModelConfig& config,
                                                       const EngineOptions& options);

  // Called after each block with its index and the hidden rows x [R, C].
  using LayerTap = std::function<void(int layer, const float* x)>;

  // Runs hidden rows x [R, C] through all blocks, in place. Writes their keys and values to the
  // cache.
  void Forward(const RowBatch& batch, float* x, const LayerTap& tap = nullptr);
  // Writes keys and values of context rows to the cache of every layer; no query is computed for
  // them (DecoderBlock::StoreContext).
  void StoreContext(const RowBatch& batch, const float* context);
  // The experts that the rows of the last Forward chose, distinct ones of a layer, as a mean over
  // the layers with experts. 0 if the model has none.
  [[nodiscard]] double touched_experts() const { return touched_experts_; }
  // y [R, C] = final_norm(x [R, C]).
  void FinalNorm(const float* x, int rows, float* y) const;

  // The cost of all blocks, excluding the embedding and the LM head.
  [[nodiscard]] ForwardCost Cost() const;

  [[nodiscard]] KvCache& cache() { return cache_; }
  [[nodiscard]] const hub::ModelConfig& config() const { return config_; }
  [[nodiscard]] const Device& device() const { return options_.device; }
  // Number of positions in the rotary table. The positions of all rows must be below it.
  [[nodiscard]] int max_positions() const { return config_.max_positions; }

 private:
  Decoder(const hub::ModelConfig& config, const EngineOptions& options);

  hub::ModelConfig config_;
  EngineOptions options_;
  std::vector<DecoderBlock> blocks_;  // L
  NormWeights final_norm_;
  Buffer rope_;  // [positions, rotated elements of a head]: cosines, then sines
  KvCache cache_;
  BlockScratch scratch_;
  double touched_experts_ = 0;
};

// Embedding table and LM head. They are one tensor if the checkpoint ties them.
class Vocabulary {
 public:
  // The matrices are empty until the loader's PackingPlan has run.
  static absl::StatusOr<Vocabulary> Load(const WeightLoader& loader,
                                         const hub::ModelConfig& config);

  // Writes the embeddings of `tokens` to x [R, C]. REQUIRES: every token is in [0, size).
  void Embed(const Device& device, const std::vector<TokenId>& tokens, float* x) const;
  // Computes logits [R, V] from x [R, C], the output of FinalNorm.
  void Logits(const Device& device, const float* x, int rows, float* logits) const;

  [[nodiscard]] const kernels::PackedMatrix& head() const { return head_.packed; }
  [[nodiscard]] int size() const { return head_.packed.rows; }      // V
  [[nodiscard]] int width() const { return head_.packed.columns; }  // C

 private:
  DType dtype_ = DType::kF32;
  Buffer table_;  // [V, C]
  Matrix head_;   // [V, C], packed
};

}  // namespace bastion::nn

#endif  // BASTION_ENGINE_MODEL_DECODER_H_
