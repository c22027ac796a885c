// FrozenTarget: the weights of the target that drafters borrow, as fp32 tensors. Training does not
// change them.
#ifndef BASTION_TOOLS_TRAIN_MODELS_FROZEN_TARGET_H_
#define BASTION_TOOLS_TRAIN_MODELS_FROZEN_TARGET_H_

#include "kernels/torch/torch.h"
// After torch.h.
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/hub/checkpoint.h"
#include "common/hub/model_config.h"

namespace bastion::train {

// A copy of a tensor of the checkpoint as fp32. Errors: those of hub::Checkpoint::Tensor.
[[nodiscard]] absl::StatusOr<at::Tensor> ReadTensor(const hub::Checkpoint& checkpoint,
                                                    const std::string& name,
                                                    const std::vector<int64_t>& shape);

struct FrozenTarget {
  // Errors: those of hub::ReadTargetConfig and ReadTensor.
  [[nodiscard]] static absl::StatusOr<FrozenTarget> Load(const std::string& folder);

  // [N, C] The rows that the LM head reads, from outputs of the last layer.
  [[nodiscard]] at::Tensor HeadInput(const at::Tensor& outputs) const;

  // Copies the tensor `name` of a layer to `to`, which has as many dimensions: the part that both
  // have. Leaves `to` as it is if the target has no such tensor. Errors: those of ReadTensor.
  [[nodiscard]] absl::Status CopyFromLayer(int layer, const std::string& name, at::Tensor to) const;

  std::string folder;
  hub::ModelConfig config;
  std::shared_ptr<const hub::Checkpoint> checkpoint;
  at::Tensor embedding;                    // [V, C]
  at::Tensor head;                         // [V, C]
  at::Tensor final_norm, final_norm_bias;  // [C]. An RMS norm has no bias.
};

}  // namespace bastion::train

#endif  // BASTION_TOOLS_TRAIN_MODELS_FROZEN_TARGET_H_
