// DFlash: a block-diffusion drafter (Chen et al., arXiv 2602.06036; checkpoint format: z-lab's).
//
// One forward pass over [root, MASK × P] predicts P marginal distributions. The block attends to
// itself without a causal mask, and to the context: keys and values that are projected from the
// target's features of all committed tokens and stored in this model's cache. The embedding and the
// LM head are the target's.
//
// Not thread-safe: one call at a time. Shape legend: common/base/ids.h.
#ifndef BASTION_DRAFTER_SERVICE_DRAFT_DFLASH_H_
#define BASTION_DRAFTER_SERVICE_DRAFT_DFLASH_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "drafter_service/draft/draft_model.h"
#include "engine/model/decoder.h"

namespace bastion::drafter {

class DflashModel final : public DraftModel {
 public:
  // Returns the errors of ReadDraftPair and of the checkpoint's files.
  static absl::StatusOr<std::unique_ptr<DflashModel>> Load(const std::string& drafter_folder,
                                                           const std::string& target_folder,
                                                           const nn::EngineOptions& options);

  void WakeUp() override { decoder_->device().pool->Wake(); }
  absl::Status AppendContext(const std::vector<ContextItem>& items) override;
  absl::StatusOr<std::vector<Marginals>> Draft(const std::vector<BlockItem>& items,
                                               int candidates) override;
  absl::Duration candidates_time() const override { return candidates_time_; }
  nn::PagePool& pages() override { return decoder_->cache(); }
  nn::ForwardCost Cost() const override;
  const hub::ModelConfig& config() const override { return decoder_->config(); }
  // Logits [B, P, V] of the last Draft, for parity tests.
  [[nodiscard]] const float* logits() const { return logits_data_; }

 private:
  DflashModel(std::unique_ptr<nn::Decoder> decoder, nn::Vocabulary vocabulary, nn::Matrix fuse,
              nn::Buffer context_norm);

  void ForwardBlocks(const nn::RowBatch& batch, int blocks);
  [[nodiscard]] std::vector<Marginals> TopMarginals(const std::vector<BlockItem>& items,
                                                    int candidates) const;

  std::unique_ptr<nn::Decoder> decoder_;
  nn::Vocabulary vocabulary_;
  nn::Matrix fuse_;          // [C, F]
  nn::Buffer context_norm_;  // [C]
  nn::Scratch features_, fused_, context_, hidden_, normed_, logits_;
  float* logits_data_ = nullptr;
  absl::Duration candidates_time_;
};

[[nodiscard]] absl::StatusOr<std::unique_ptr<DraftModel>> LoadCpuDflash(
    const std::string& drafter_folder, const std::string& target_folder,
    const nn::EngineOptions& options);

}  // namespace bastion::drafter

#endif  // BASTION_DRAFTER_SERVICE_DRAFT_DFLASH_H_
