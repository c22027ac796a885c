// The training of EAGLE-3 drafters (Li et al., arXiv 2503.01840; checkpoint format: SpecForge's).
//
// A step draws anchors in each text, and drafts S tokens after each, as the engine drafts a chain
// after a root (the authors call this the training-time test). The row of draft step s reads the
// embedding of token anchor + s and a state: at s = 0 the fused features of the token before, later
// the output of the step before. It sees the context rows up to the anchor's, which are made from
// features, and the rows of its own chain. It predicts token anchor + s + 1, and counts 0.8^s.
#ifndef BASTION_TOOLS_TRAIN_MODELS_EAGLE_H_
#define BASTION_TOOLS_TRAIN_MODELS_EAGLE_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/train/models/drafter_shape.h"
#include "tools/train/models/feature_head.h"
#include "tools/train/models/frozen_target.h"
#include "tools/train/models/layers.h"
#include "tools/train/models/trainable_drafter.h"

namespace bastion::train {

class TrainableEagle final : public TrainableDrafter {
 public:
  // A drafter that begins with the target's last layer, where it fits, and with the target's head.
  // `seed` draws the other weights. INVALID_ARGUMENT for a shape that does not fit the target.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<TrainableEagle>> Create(
      const FrozenTarget& target, const DrafterShape& shape, uint64_t seed);

  const Parameters& parameters() const override { return parameters_; }
  const std::vector<int>& feature_layers() const override {
    return config_.drafter.head.target_layers;
  }
  int min_written() const override { return 3 * steps_; }
  StepLoss AddGradients(const TextBatch& batch, Draws& draws) override;
  nlohmann::json Config() const override;

  // The normed outputs [B, A, S, C] of the draft steps after A anchors per text, for the drafter's
  // head. features [B, T, F]; tokens [B, T'] and anchors [B, A] of int64, where 1 <= anchor <= T
  // and anchor + S <= T'.
  [[nodiscard]] at::Tensor Forward(const at::Tensor& features, const at::Tensor& tokens,
                                   const at::Tensor& anchors) const;
  // [D, C] The drafter's head.
  [[nodiscard]] const at::Tensor& head() const { return head_; }

 private:
  TrainableEagle(const FrozenTarget& target, const hub::ModelConfig& config,
                 const DrafterShape& shape, uint64_t seed);

  // Copies what fits from the target's last layer. Its rows become the half that reads states.
  [[nodiscard]] absl::Status BeginWithTarget();
  // [.., 2 C] The input of the attention for rows of tokens [..] and states [.., C].
  [[nodiscard]] at::Tensor Join(const at::Tensor& tokens, const at::Tensor& states) const;

  const FrozenTarget& target_;
  const hub::ModelConfig config_;
  const int steps_;  // S
  Parameters parameters_;
  Rotary rotary_;
  at::Tensor fuse_;  // [C, F]
  at::Tensor state_norm_, final_norm_;
  at::Tensor head_;
  DecoderLayer layer_;
  DraftColumns columns_;
  at::Tensor decay_;  // [S] The weights of draft steps.
};

}  // namespace bastion::train

#endif  // BASTION_TOOLS_TRAIN_MODELS_EAGLE_H_
