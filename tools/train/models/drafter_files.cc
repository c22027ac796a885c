#include "tools/train/models/drafter_files.h"

#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"

namespace bastion::train {
namespace {

DType TypeOf(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return DType::kF32;
    case at::kBFloat16:
      return DType::kBF16;
    case at::kInt:
      return DType::kI32;
    case at::kLong:
      return DType::kI64;
    default:
      LOG(FATAL) << "no file has tensors of type " << tensor.scalar_type();
  }
  return DType::kF32;
}

absl::Status WriteText(const std::string& text, const std::string& path) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file.fail()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot write ", path));
}

}  // namespace

nlohmann::json DecoderConfigJson(const hub::ModelConfig& config) {
  const ModelDims& dims = config.dims;
  nlohmann::json json = {{"architectures", {config.architecture}},
                         {"model_type", "qwen3"},
                         {"vocab_size", dims.vocabulary},
                         {"hidden_size", dims.hidden},
                         {"intermediate_size", dims.intermediate},
                         {"num_hidden_layers", dims.layers},
                         {"num_attention_heads", dims.query_heads},
                         {"num_key_value_heads", dims.kv_heads},
                         {"head_dim", dims.head_dim},
                         {"rope_theta", config.blocks.rope.theta},
                         {"rms_norm_eps", config.blocks.norm_epsilon},
                         {"max_position_embeddings", config.max_positions},
                         {"hidden_act", "silu"},
                         {"attention_bias", false},
                         {"tie_word_embeddings", config.tie_word_embeddings},
                         {"torch_dtype", "bfloat16"}};
  if (!config.special.bos.empty()) json["bos_token_id"] = config.special.bos.front();
  if (!config.special.eos.empty()) json["eos_token_id"] = config.special.eos;
  return json;
}

hub::NamedTensor FileTensor(std::string name, const at::Tensor& tensor) {
  CHECK(tensor.is_contiguous()) << name;
  return {std::move(name),
          {TypeOf(tensor), tensor.sizes().vec(), tensor.const_data_ptr(), tensor.nbytes()}};
}

absl::Status SaveDrafter(const TrainableDrafter& drafter, const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot create the folder ", folder, ": ", error.message()));
  }
  std::vector<at::Tensor> rounded;
  std::vector<hub::NamedTensor> tensors;
  for (const Parameter& parameter : drafter.Exported()) {
    rounded.push_back(parameter.value.detach().to(at::kBFloat16));
    tensors.push_back(FileTensor(parameter.name, rounded.back()));
  }
  for (const Parameter& constant : drafter.parameters().constants()) {
    tensors.push_back(FileTensor(constant.name, constant.value));
  }
  RETURN_IF_ERROR(hub::WriteSafetensors(tensors, absl::StrCat(folder, "/model.safetensors")));
  return WriteText(drafter.Config().dump(2) + "\n", absl::StrCat(folder, "/config.json"));
}

}  // namespace bastion::train
