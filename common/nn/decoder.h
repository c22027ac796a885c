// A stack of decoder blocks with its rotary table and KV cache, and the vocabulary's two ends
// (embedding and LM head) that a target owns and a block-diffusion drafter borrows from it.
//
// Not thread-safe: one forward at a time.
#ifndef BASTION_COMMON_NN_DECODER_H_
#define BASTION_COMMON_NN_DECODER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/hub/model_config.h"
#include "common/nn/decoder_block.h"
#include "common/nn/kv_cache.h"

namespace bastion::nn {

class Decoder {
 public:
  // Blocks named `prefix` + "layers.N.", and the final norm `prefix` + "norm.weight". Ready when
  // the loader's plan has been run.
  static absl::StatusOr<std::unique_ptr<Decoder>> Load(const WeightLoader& loader,
                                                       const hub::ModelConfig& config,
                                                       const std::string& prefix,
                                                       const EngineOptions& options);

  // Called after each block with its index and the hidden rows x [R, C].
  using LayerTap = std::function<void(int layer, const float* x)>;

  // Hidden rows x [R, C] through all blocks, in place; keys and values go to the cache.
  void Forward(const RowBatch& batch, float* x, const LayerTap& tap = nullptr);
  // Context rows into the cache of every layer, attended from by nobody
  // (DecoderBlock::StoreContext).
  void StoreContext(const RowBatch& batch, const float* context);
  // y = final_norm(x), rows of C.
  void FinalNorm(const float* x, int rows, float* y) const;

  // Of all blocks; the vocabulary's ends left out.
  [[nodiscard]] ForwardCost Cost() const;

  [[nodiscard]] KvCache& cache() { return cache_; }
  [[nodiscard]] const hub::ModelConfig& config() const { return config_; }
  [[nodiscard]] const Device& device() const { return options_.device; }
  // Positions that the rotary table covers: rows must stay below.
  [[nodiscard]] int max_positions() const { return config_.max_positions; }

 private:
  Decoder(const hub::ModelConfig& config, const EngineOptions& options);

  hub::ModelConfig config_;
  EngineOptions options_;
  std::vector<DecoderBlock> blocks_;  // L
  Buffer final_norm_;                 // [C]
  Buffer rope_;                       // [positions, D]: cosines, then sines
  KvCache cache_;
  BlockScratch scratch_;
};

// Embedding table and LM head (one tensor where the checkpoint ties them).
class Vocabulary {
 public:
  // Ready when the loader's plan has been run.
  static absl::StatusOr<Vocabulary> Load(const WeightLoader& loader,
                                         const hub::ModelConfig& config);

  // x [R, C] = rows of the embedding. REQUIRES: every token in [0, size).
  void Embed(const Device& device, const std::vector<TokenId>& tokens, float* x) const;
  // logits [R, V] of final-normed rows x [R, C].
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

#endif  // BASTION_COMMON_NN_DECODER_H_
