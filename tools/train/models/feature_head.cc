#include "tools/train/models/feature_head.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace bastion::train {
namespace {

constexpr int kMinDefaultLayers = 7;  // Fewer layers have no three different default layers.

}  // namespace

std::vector<int> FeatureLayersOf(const hub::ModelConfig& target, const DrafterShape& shape) {
  if (!shape.feature_layers.empty() || target.dims.layers < kMinDefaultLayers) {
    return shape.feature_layers;
  }
  return hub::DefaultEagleLayers(target.dims.layers);
}

absl::Status CheckFeatureHead(const hub::ModelConfig& target, const std::vector<int>& layers,
                              const DrafterShape& shape) {
  for (const TokenId token : shape.draft_tokens) {
    if (token >= 0 && token < target.dims.vocabulary) continue;
    return absl::InvalidArgumentError(absl::StrCat("the draft vocabulary has token ", token,
                                                   "; the target has tokens 0 to ",
                                                   target.dims.vocabulary - 1));
  }
  if (layers.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--feature_layers is missing: the target has ", target.dims.layers,
                     " layers; the default needs ", kMinDefaultLayers));
  }
  for (size_t i = 0; i < layers.size(); ++i) {
    // The config cannot name the output of layer 0.
    const bool first = std::find(layers.begin(), layers.end(), layers[i]) == layers.begin() + i;
    if (layers[i] >= 1 && layers[i] < target.dims.layers && first) continue;
    return absl::InvalidArgumentError(absl::StrCat("--feature_layers names layer ", layers[i],
                                                   "; it must name different layers from 1 to ",
                                                   target.dims.layers - 1));
  }
  return absl::OkStatus();
}

nlohmann::json FeatureLayersJson(std::vector<int> layers) {
  // The format counts the inputs of layers: that of layer 2 is the output of layer 1.
  for (int& layer : layers) ++layer;
  return {{"eagle_aux_hidden_state_layer_ids", layers}, {"use_aux_hidden_state", true}};
}

hub::ModelConfig LlamaDrafterConfig(const hub::ModelConfig& target, int layers,
                                    const DrafterShape& shape) {
  hub::ModelConfig config = target;
  config.names = hub::TensorNames();
  config.dims.layers = layers;
  if (shape.intermediate > 0) config.dims.intermediate = shape.intermediate;
  config.tie_word_embeddings = false;
  config.blocks.norm = hub::NormKind::kRms;
  config.blocks.mlp = hub::MlpKind::kGatedSilu;
  config.blocks.query_key_norm = false;
  config.blocks.parallel_residual = false;
  config.blocks.rope = hub::RopeConfig();
  config.blocks.rope.theta = target.blocks.rope.theta;
  config.blocks.rope.dims = config.dims.head_dim;
  return config;
}

DraftColumns::DraftColumns(const FrozenTarget& target, const std::vector<TokenId>& tokens,
                           Parameters& parameters)
    : of_tokens(at::arange(target.config.dims.vocabulary, at::kLong)), target_head(target.head) {
  if (tokens.empty()) return;
  const at::Tensor ids = at::tensor(std::vector<int64_t>(tokens.begin(), tokens.end()));
  const at::Tensor numbers = at::arange(ids.size(0), at::kLong);
  parameters.AddConstant("d2t", ids - numbers);
  of_tokens = at::full({target.config.dims.vocabulary}, -1, at::kLong).scatter(0, ids, numbers);
  target_head = target.head.index_select(0, ids);
}

}  // namespace bastion::train
