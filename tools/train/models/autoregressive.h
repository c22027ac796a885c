// The training of autoregressive drafters: small language models with the target's vocabulary, and
// Qwen3's blocks. They read no features, so the same drafter serves every target with its tokens.
//
// A step learns the target's distribution after every token of the texts.
#ifndef BASTION_TOOLS_TRAIN_MODELS_AUTOREGRESSIVE_H_
#define BASTION_TOOLS_TRAIN_MODELS_AUTOREGRESSIVE_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/train/models/drafter_shape.h"
#include "tools/train/models/frozen_target.h"
#include "tools/train/models/layers.h"
#include "tools/train/models/trainable_drafter.h"

namespace bastion::train {

class TrainableAutoregressive final : public TrainableDrafter {
 public:
  // INVALID_ARGUMENT for a hidden width that heads of 32 elements do not fill. `seed` draws the
  // first weights.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<TrainableAutoregressive>> Create(
      const FrozenTarget& target, const DrafterShape& shape, uint64_t seed);

  const Parameters& parameters() const override { return parameters_; }
  const std::vector<int>& feature_layers() const override { return feature_layers_; }
  int min_written() const override { return 1; }
  StepLoss AddGradients(const TextBatch& batch, Draws& draws) override;
  nlohmann::json Config() const override;

  // tokens [B, T] of int64 -> the normed outputs [B, T, C] for the drafter's own head.
  [[nodiscard]] at::Tensor Forward(const at::Tensor& tokens) const;
  // [V, C] The embedding, which is also the head.
  [[nodiscard]] const at::Tensor& embedding() const { return embedding_; }

 private:
  TrainableAutoregressive(const FrozenTarget& target, const hub::ModelConfig& config,
                          uint64_t seed);

  const FrozenTarget& target_;
  const hub::ModelConfig config_;
  const std::vector<int> feature_layers_ = {};
  Parameters parameters_;
  Rotary rotary_;
  at::Tensor embedding_, final_norm_;
  std::vector<DecoderLayer> layers_;
};

}  // namespace bastion::train

#endif  // BASTION_TOOLS_TRAIN_MODELS_AUTOREGRESSIVE_H_
