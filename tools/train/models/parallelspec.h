// The training of ParallelSpec drafters (Xiao et al., arXiv 2410.05589): EAGLE-3 drafters that
// predict P tokens in one forward. Checkpoint format: that of P-EAGLE in speculators.
//
// The row of token t is that of EAGLE-3: the embedding of t, and the fused features of token t − 1.
// It sees the rows of all tokens up to t, and predicts token t + 1. A step draws anchors in each
// text. The row of an anchor is followed by P − 1 mask rows, at the next positions, which predict
// the next tokens. They read the embedding of the mask token and a learned vector in place of
// features. They see the rows of tokens up to the anchor, and the mask rows before them. The row
// that predicts token anchor + s + 1 counts 0.8^s.
#ifndef BASTION_TOOLS_TRAIN_MODELS_PARALLELSPEC_H_
#define BASTION_TOOLS_TRAIN_MODELS_PARALLELSPEC_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/train/models/drafter_shape.h"
#include "tools/train/models/feature_head.h"
#include "tools/train/models/frozen_target.h"
#include "tools/train/models/layers.h"
#include "tools/train/models/trainable_drafter.h"

namespace bastion::train {

class TrainableParallelSpec final : public TrainableDrafter {
 public:
  // A drafter that begins with the target's last layers, where they fit, and with the target's
  // head. `seed` draws the other weights. INVALID_ARGUMENT for a shape that does not fit the
  // target.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<TrainableParallelSpec>> Create(
      const FrozenTarget& target, const DrafterShape& shape, uint64_t seed);

  const Parameters& parameters() const override { return parameters_; }
  const std::vector<int>& feature_layers() const override { return layer_ids_; }
  int min_written() const override { return 3 * positions_; }
  StepLoss AddGradients(const TextBatch& batch, Draws& draws) override;
  nlohmann::json Config() const override;

  // The normed outputs [B, A, P, C] after A anchors per text, for the drafter's head. features
  // [B, T, F]; tokens [B, T'] and anchors [B, A] of int64, where 1 <= anchor <= T and
  // anchor < T'.
  [[nodiscard]] at::Tensor Forward(const at::Tensor& features, const at::Tensor& tokens,
                                   const at::Tensor& anchors) const;
  // [D, C] The drafter's head.
  [[nodiscard]] const at::Tensor& head() const { return head_; }

 private:
  TrainableParallelSpec(const FrozenTarget& target, const hub::ModelConfig& config,
                        const DrafterShape& shape, uint64_t seed);
  // Copies what fits from the target's last layers.
  [[nodiscard]] absl::Status BeginWithTarget();

  const FrozenTarget& target_;
  const hub::ModelConfig config_;
  const std::vector<int> layer_ids_;
  const int positions_;  // P
  const TokenId mask_token_;
  Parameters parameters_;
  Rotary rotary_;
  at::Tensor fuse_;           // [C, F]
  at::Tensor mask_features_;  // [1, 1, F]
  at::Tensor state_norm_, final_norm_;
  std::vector<DecoderLayer> layers_;
  DraftColumns columns_;
  at::Tensor head_;
  at::Tensor decay_;  // [P] The weights of positions.
};

}  // namespace bastion::train

#endif  // BASTION_TOOLS_TRAIN_MODELS_PARALLELSPEC_H_
