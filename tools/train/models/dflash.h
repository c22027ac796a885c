// The training of DFlash drafters (Chen et al., arXiv 2602.06036; checkpoint format: z-lab's), and
// of version 2, which also has convolutions (block_convolution.h) and a selector (pair_training.h).
// A new drafter of version 2 drafts what one of version 1 does.
//
// A step draws anchors in each text. A block of K = P + 1 rows [the anchor's token, MASK × P] sees
// the features of all tokens before its anchor, and itself. It predicts the P tokens after the
// anchor. Row k counts exp(−(k − 1) / γ).
#ifndef BASTION_TOOLS_TRAIN_MODELS_DFLASH_H_
#define BASTION_TOOLS_TRAIN_MODELS_DFLASH_H_

#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/train/models/drafter_shape.h"
#include "tools/train/models/frozen_target.h"
#include "tools/train/models/layers.h"
#include "tools/train/models/pair_training.h"
#include "tools/train/models/trainable_drafter.h"

namespace bastion::train {

enum class DflashVersion { kFirst, kSecond };

class TrainableDflash final : public TrainableDrafter {
 public:
  // A drafter that begins with the target's last layers, where they fit, and else with random
  // weights that `seed` draws. INVALID_ARGUMENT for a shape that does not fit the target.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<TrainableDflash>> Create(
      const FrozenTarget& target, const DrafterShape& shape, uint64_t seed,
      DflashVersion version = DflashVersion::kFirst);

  const Parameters& parameters() const override { return parameters_; }
  const std::vector<int>& feature_layers() const override {
    return config_.drafter.dflash.target_layer_ids;
  }
  int min_written() const override { return 3 * config_.drafter.dflash.block_size; }
  StepLoss AddGradients(const TextBatch& batch, Draws& draws) override;
  nlohmann::json Config() const override;
  std::vector<Parameter> Exported() const override;

  // The normed outputs [B, A, P, C] of the mask rows of A blocks per text, for the target's head.
  // features [B, T, F]; tokens and anchors [B, A] of int64: the anchors' tokens and positions,
  // where 1 <= anchor <= T.
  [[nodiscard]] at::Tensor Forward(const at::Tensor& features, const at::Tensor& tokens,
                                   const at::Tensor& anchors) const;
  // Not set in version 1.
  [[nodiscard]] const std::optional<PairTraining>& pairs() const { return pairs_; }

 private:
  TrainableDflash(const FrozenTarget& target, const hub::ModelConfig& config,
                  const SelectorLearning& selector, uint64_t seed);

  // Copies what fits from the target's last layers, so that the context's keys and values begin
  // close to the target's own.
  [[nodiscard]] absl::Status BeginWithTarget();

  const FrozenTarget& target_;
  const hub::ModelConfig config_;
  Parameters parameters_;
  Rotary rotary_;
  at::Tensor fuse_;  // [C, F]
  at::Tensor context_norm_, final_norm_;
  std::vector<DecoderLayer> layers_;
  std::optional<PairTraining> pairs_;
  at::Tensor decay_;  // [P] The weights of positions; their sum is 1.
};

}  // namespace bastion::train

#endif  // BASTION_TOOLS_TRAIN_MODELS_DFLASH_H_
