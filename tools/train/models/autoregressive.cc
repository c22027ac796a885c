#include "tools/train/models/autoregressive.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "tools/train/models/drafter_files.h"
#include "tools/train/models/head_loss.h"

namespace bastion::train {
namespace {

constexpr int kDefaultLayers = 2;
constexpr int kDefaultHidden = 128;
constexpr int kHeadDim = 32;

hub::ModelConfig ConfigFor(const hub::ModelConfig& target, const DrafterShape& shape) {
  hub::ModelConfig config;
  config.architecture = "Qwen3ForCausalLM";
  ModelDims& dims = config.dims;
  dims.layers = shape.layers > 0 ? shape.layers : kDefaultLayers;
  dims.hidden = shape.hidden > 0 ? shape.hidden : kDefaultHidden;
  dims.head_dim = kHeadDim;
  dims.query_heads = dims.kv_heads = dims.hidden / kHeadDim;
  dims.intermediate = shape.intermediate > 0 ? shape.intermediate : 4 * dims.hidden;
  dims.vocabulary = target.dims.vocabulary;
  config.max_positions = target.max_positions;
  config.tie_word_embeddings = true;
  config.special = target.special;
  config.blocks.norm_epsilon = 1e-6;
  config.blocks.query_key_norm = true;
  config.blocks.rope.theta = target.blocks.rope.theta;
  config.blocks.rope.dims = kHeadDim;
  return config;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TrainableAutoregressive>> TrainableAutoregressive::Create(
    const FrozenTarget& target, const DrafterShape& shape, uint64_t seed) {
  const hub::ModelConfig config = ConfigFor(target.config, shape);
  if (config.dims.hidden % kHeadDim != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--hidden is ", config.dims.hidden, "; it must be a multiple of ", kHeadDim));
  }
  return std::unique_ptr<TrainableAutoregressive>(
      new TrainableAutoregressive(target, config, seed));
}

TrainableAutoregressive::TrainableAutoregressive(const FrozenTarget& target,
                                                 const hub::ModelConfig& config, uint64_t seed)
    : target_(target),
      config_(config),
      parameters_(seed),
      rotary_(config.blocks.rope, config.max_positions) {
  const hub::TensorNames names;
  embedding_ = parameters_.AddTokenRows(names.embedding + ".weight", config.dims.vocabulary,
                                        config.dims.hidden);
  for (int layer = 0; layer < config.dims.layers; ++layer) {
    layers_.emplace_back(parameters_, absl::StrCat(names.blocks, layer, "."), config);
  }
  final_norm_ = parameters_.AddOnes(names.final_norm + ".weight", config.dims.hidden);
}

nlohmann::json TrainableAutoregressive::Config() const { return DecoderConfigJson(config_); }

at::Tensor TrainableAutoregressive::Forward(const at::Tensor& tokens) const {
  const Rotation rotation = rotary_.At(at::arange(tokens.size(1), at::kLong));
  at::Tensor x = at::embedding(embedding_, tokens);
  for (const DecoderLayer& layer : layers_) {
    const at::Tensor normed = layer.InputNorm(x);
    x = layer.Forward(x, normed, rotation, layer.Project(normed, rotation));
  }
  return RmsNorm(x, final_norm_, config_.blocks.norm_epsilon);
}

StepLoss TrainableAutoregressive::AddGradients(const TextBatch& batch, Draws& /*draws*/) {
  const int64_t rows = batch.tokens.size(1) - 1;  // The last token has no successor.
  const at::Tensor used =
      at::arange(rows, at::kLong).lt(batch.lengths.unsqueeze(1) - 1);  // [B, T − 1]
  const at::Tensor outputs = Forward(batch.tokens.narrow(1, 0, rows)).index({used});
  const auto count = outputs.size(0);
  const HeadLoss loss =
      AddHeadGradients({.rows = outputs,
                        .teacher = batch.head_input.narrow(1, 0, rows).index({used}),
                        .labels = batch.tokens.narrow(1, 1, rows).index({used}),
                        .weights = at::full({count}, 1.0 / count),
                        .head = target_.head,
                        .own_head = embedding_});
  return {.loss = loss.losses.mean().item<double>(),
          .labels = count,
          .hits = {loss.hits.to(at::kDouble).mean().item<double>()}};
}

}  // namespace bastion::train
