// Writes drafters as checkpoint folders that the engine loads.
#ifndef BASTION_TOOLS_TRAIN_MODELS_DRAFTER_FILES_H_
#define BASTION_TOOLS_TRAIN_MODELS_DRAFTER_FILES_H_

#include "kernels/torch/torch.h"
// After torch.h.
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "common/hub/model_config.h"
#include "common/hub/safetensors_writer.h"
#include "tools/train/models/trainable_drafter.h"

namespace bastion::train {

// The fields of config.json that describe the decoder blocks, with the names of `transformers`.
[[nodiscard]] nlohmann::json DecoderConfigJson(const hub::ModelConfig& config);

// A contiguous tensor of the host in fp32, bf16, int32 or int64 as a tensor of a file. `tensor`
// must outlive it.
[[nodiscard]] hub::NamedTensor FileTensor(std::string name, const at::Tensor& tensor);

// Writes config.json, and model.safetensors with the parameters in bf16. Creates the folder.
// Errors: the system's; they name the path.
[[nodiscard]] absl::Status SaveDrafter(const TrainableDrafter& drafter, const std::string& folder);

}  // namespace bastion::train

#endif  // BASTION_TOOLS_TRAIN_MODELS_DRAFTER_FILES_H_
