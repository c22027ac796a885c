// The training of SpecBlock drafters (checkpoint format: the authors').
//
// Token t has K rows. Row k predicts token t + k. Its condition is made from the target's features
// of token t − 1. It sees all rows of earlier tokens, and rows 1 to k of its own. A step draws
// anchors in each text: tokens whose rows have a loss. After the rows of an anchor, the step drafts
// later blocks, as the engine does. A later block starts from row s of the block before, where s is
// drawn once per step: its token is the one that this row should predict, and its condition is the
// state of this row. It sees the rows of tokens before the anchor, rows 1 to s of the blocks
// before, and its own rows. block_loss.h says which rows count, and how much.
//
// The rank head learns to predict the rank of the target's token. Its inputs record no gradients.
#ifndef BASTION_TOOLS_TRAIN_MODELS_SPECBLOCK_H_
#define BASTION_TOOLS_TRAIN_MODELS_SPECBLOCK_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/train/models/drafter_shape.h"
#include "tools/train/models/feature_head.h"
#include "tools/train/models/frozen_target.h"
#include "tools/train/models/layers.h"
#include "tools/train/models/trainable_drafter.h"

namespace bastion::train {

class TrainableSpecBlock final : public TrainableDrafter {
 public:
  // A drafter that begins with the target's last layers, where they fit, and with the target's
  // head. `seed` draws the other weights. INVALID_ARGUMENT for a shape that does not fit the
  // target.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<TrainableSpecBlock>> Create(
      const FrozenTarget& target, const DrafterShape& shape, uint64_t seed);

  const Parameters& parameters() const override { return parameters_; }
  const std::vector<int>& feature_layers() const override {
    return config_.drafter.head.target_layers;
  }
  int min_written() const override { return 2 * learning_.blocks * specblock().positions; }
  void BeginStep(int64_t step, double done) override;
  StepLoss AddGradients(const TextBatch& batch, Draws& draws) override;
  nlohmann::json Config() const override;

  // The states [B, A, K, C], before the final norm, of the blocks after A anchors per text: first
  // the anchors' own rows, then for each of `starts` the block that starts from this row, 1 to K,
  // of the block before. features [B, T, F]; tokens [B, T'] and anchors [B, A] of int64, where
  // 1 <= anchor <= T and anchor + Σ starts < T'.
  [[nodiscard]] std::vector<at::Tensor> Forward(const at::Tensor& features,
                                                const at::Tensor& tokens, const at::Tensor& anchors,
                                                const std::vector<int64_t>& starts) const;
  // What the heads read, from states.
  [[nodiscard]] at::Tensor Normed(const at::Tensor& states) const;
  // [D, C] The drafter's head.
  [[nodiscard]] const at::Tensor& head() const { return head_; }
  // [N, 4] The logits of the rank head, from normed states [N, C] and their largest logits.
  [[nodiscard]] at::Tensor RankLogits(const at::Tensor& normed, const at::Tensor& top) const;
  // How many of the largest logits the rank head reads.
  [[nodiscard]] int64_t rank_top() const;

 private:
  // The rows of the tokens before the anchors, and of the anchors, in a layer.
  using Context = std::vector<KeysValues>;  // [B, G, R K, D] for each layer.

  TrainableSpecBlock(const FrozenTarget& target, const hub::ModelConfig& config,
                     const DrafterShape& shape, uint64_t seed);
  [[nodiscard]] const hub::SpecBlockConfig& specblock() const { return config_.drafter.specblock; }
  // Copies what fits from the target.
  [[nodiscard]] absl::Status BeginWithTarget();
  // [.., K, C] The rows of tokens [..] with conditions [.., C].
  [[nodiscard]] at::Tensor Enter(const at::Tensor& tokens, const at::Tensor& conditions) const;
  // Rows [.., K, C] mixed with the rows before them, in front of a layer.
  [[nodiscard]] at::Tensor Shift(const at::Tensor& x, size_t layer) const;
  // Adds the gradients of the rank head. Returns its loss.
  double AddRankGradients(const at::Tensor& rows, const at::Tensor& top, const at::Tensor& ranks,
                          const at::Tensor& counts) const;

  const FrozenTarget& target_;
  const hub::ModelConfig config_;
  const BlockLearning learning_;
  const bool shifts_;
  bool ranks_learn_ = true;  // In the next step.
  Parameters parameters_;
  Rotary rotary_;
  at::Tensor condition_;  // [C, F]
  at::Tensor condition_norm_, token_norm_, query_norm_;
  at::Tensor queries_;  // [K, C]
  at::Tensor fuse_;     // [C, 3 C]
  std::vector<DecoderLayer> layers_;
  std::vector<at::Tensor> shift_;  // [C, 2 C] for each layer but the first.
  at::Tensor final_norm_;
  DraftColumns columns_;
  at::Tensor head_;
  at::Tensor rank_inner_, rank_outer_;  // [R, C + 15], [4, R]
};

}  // namespace bastion::train

#endif  // BASTION_TOOLS_TRAIN_MODELS_SPECBLOCK_H_
