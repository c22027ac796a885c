// DFlash: a block-diffusion drafter (Chen et al., arXiv 2602.06036; checkpoint format: z-lab's).
//
// One forward pass over [root, MASK × P] gives P marginal distributions at once. The block attends
// to itself without causality and to the context: keys and values projected from the target's
// features of all committed tokens, kept in this model's own cache. Embedding and LM head are the
// target's.
//
// Not thread-safe: one call at a time.
#ifndef BASTION_DRAFTER_SERVICE_DRAFT_DFLASH_H_
#define BASTION_DRAFTER_SERVICE_DRAFT_DFLASH_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/nn/decoder.h"
#include "common/tree/features.h"
#include "common/tree/marginals.h"
#include "common/tree/sampling_params.h"

namespace bastion::drafter {

// New context of one sequence: features of tokens [cached, cached + features.rows()).
struct ContextItem {
  nn::PageTable* table = nullptr;
  Position cached = 0;
  Features features;
};

// A block to draft after `cached` context tokens.
struct BlockItem {
  nn::PageTable* table = nullptr;
  Position cached = 0;
  TokenId root = 0;
  std::optional<ChoiceParams> coupling = std::nullopt;  // Rank by the keyed choice's own values.
};

class DflashModel {
 public:
  // INVALID_ARGUMENT when the folders do not belong together (vocabulary, width, layer count), each
  // with both values; otherwise the errors of the checkpoint's files.
  static absl::StatusOr<std::unique_ptr<DflashModel>> Load(const std::string& drafter_folder,
                                                           const std::string& target_folder,
                                                           const nn::EngineOptions& options);

  // Projects new context rows into the cache. RESOURCE_EXHAUSTED when the cache is full,
  // INVALID_ARGUMENT for features of another width.
  [[nodiscard]] absl::Status AppendContext(const std::vector<ContextItem>& items);

  // One forward over all blocks; P marginals of `candidates` tokens for each. The block's own keys
  // and values are dropped afterwards.
  [[nodiscard]] absl::StatusOr<std::vector<Marginals>> Draft(const std::vector<BlockItem>& items,
                                                             int candidates);

  void Release(nn::PageTable& table) { decoder_->cache().Shrink(table, 0); }

  // Of one block with its logits, and its new context.
  [[nodiscard]] nn::ForwardCost Cost() const;

  [[nodiscard]] int positions() const { return config().dflash.block_size - 1; }  // P
  [[nodiscard]] int feature_width() const {                                       // F
    return static_cast<int>(config().dflash.target_layer_ids.size()) * config().dims.hidden;
  }
  [[nodiscard]] const hub::ModelConfig& config() const { return decoder_->config(); }
  // Logits [B, P, V] of the last Draft, for parity tests.
  [[nodiscard]] const float* logits() const { return logits_data_; }

 private:
  DflashModel(std::unique_ptr<nn::Decoder> decoder, nn::Vocabulary vocabulary, nn::Matrix fuse,
              nn::Tensor context_norm);

  void ForwardBlocks(const nn::RowBatch& batch, int blocks);
  [[nodiscard]] std::vector<Marginals> TopMarginals(const std::vector<BlockItem>& items,
                                                    int candidates) const;

  std::unique_ptr<nn::Decoder> decoder_;
  nn::Vocabulary vocabulary_;
  nn::Matrix fuse_;          // [C, F]
  nn::Tensor context_norm_;  // [C]
  nn::Scratch features_, fused_, context_, hidden_, normed_, logits_;
  float* logits_data_ = nullptr;
};

}  // namespace bastion::drafter

#endif  // BASTION_DRAFTER_SERVICE_DRAFT_DFLASH_H_
