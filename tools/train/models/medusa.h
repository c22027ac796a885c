// The training of Medusa heads (Cai et al., arXiv 2401.10774; checkpoint format: the authors').
//
// All heads read the input of the target's LM head that predicted the root. Head i predicts the
// token i + 1 places after the root, from residual blocks x + SiLU(W x + b) and a matrix of its
// own. Every head begins as the target's own: W and b with zeros, the matrix with the LM head. A
// step draws anchors in each text as roots. Head i counts 0.8^i.
#ifndef BASTION_TOOLS_TRAIN_MODELS_MEDUSA_H_
#define BASTION_TOOLS_TRAIN_MODELS_MEDUSA_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/train/models/drafter_shape.h"
#include "tools/train/models/frozen_target.h"
#include "tools/train/models/parameters.h"
#include "tools/train/models/trainable_drafter.h"

namespace bastion::train {

class TrainableMedusa final : public TrainableDrafter {
 public:
  // INVALID_ARGUMENT for more heads than the engine runs.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<TrainableMedusa>> Create(
      const FrozenTarget& target, const DrafterShape& shape, uint64_t seed);

  const Parameters& parameters() const override { return parameters_; }
  const std::vector<int>& feature_layers() const override { return feature_layers_; }
  int min_written() const override { return 3 * static_cast<int>(heads_.size()); }
  StepLoss AddGradients(const TextBatch& batch, Draws& draws) override;
  nlohmann::json Config() const override;

  // [N, C] The rows in front of the matrix of a head. states [N, C]: inputs of the target's head.
  [[nodiscard]] at::Tensor Forward(int head, const at::Tensor& states) const;
  // [V, C] The matrix of a head.
  [[nodiscard]] const at::Tensor& matrix(int head) const { return heads_[head].matrix; }

 private:
  struct Block {
    at::Tensor weight, bias;  // [C, C], [C]
  };
  struct Head {
    std::vector<Block> blocks;
    at::Tensor matrix;
  };
  TrainableMedusa(const FrozenTarget& target, int heads, int blocks, uint64_t seed);

  const FrozenTarget& target_;
  const std::vector<int> feature_layers_;
  Parameters parameters_;
  std::vector<Head> heads_;
};

}  // namespace bastion::train

#endif  // BASTION_TOOLS_TRAIN_MODELS_MEDUSA_H_
