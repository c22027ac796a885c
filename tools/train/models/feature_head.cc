#include "tools/train/models/feature_head.h"

#include <algorithm>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "tools/train/models/anchors.h"
#include "tools/train/models/head_loss.h"
#include "tools/train/models/products.h"

namespace bastion::train {
namespace {

constexpr int kMinDefaultLayers = 7;  // Fewer layers have no three different default layers.
constexpr int64_t kChunkRows = 512;

// [N] bool: the most probable token after the target's rows [N, C] has a column.
at::Tensor HasColumn(const at::Tensor& teacher, const FrozenTarget& target,
                     const DraftColumns& columns) {
  if (columns.target_head.size(0) == target.head.size(0)) {
    return at::ones({teacher.size(0)}, at::kBool);
  }
  const at::NoGradGuard no_gradients;
  std::vector<at::Tensor> known;
  for (const at::Tensor& rows : teacher.split(kChunkRows)) {
    known.push_back(columns.of_tokens.index({Product(rows, target.head).argmax(-1)}).ge(0));
  }
  return at::cat(known);
}

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

absl::Status CopyJoinedBlock(const FrozenTarget& target, int layer, const std::string& block,
                             const Parameters& parameters) {
  const hub::TensorNames names;
  const int64_t hidden = target.config.dims.hidden;
  for (const Parameter& parameter : parameters.all()) {
    if (!absl::StartsWith(parameter.name, block)) continue;
    const std::string name = parameter.name.substr(block.size());
    at::Tensor to = parameter.value;
    if (name == names.attention_norm + ".weight") continue;
    if (to.dim() == 2 && to.size(1) == 2 * hidden && !absl::StartsWith(name, names.output) &&
        !absl::StartsWith(name, names.down)) {
      to = to.narrow(1, hidden, hidden);
    }
    RETURN_IF_ERROR(target.CopyFromLayer(layer, name, to));
  }
  return absl::OkStatus();
}

StepLoss AddDraftHeadGradients(const DraftRows& draft, const TextBatch& batch,
                               const FrozenTarget& target, const DraftColumns& columns) {
  const int64_t steps = draft.decay.size(0);
  const at::Tensor text = at::arange(draft.anchors.size(0), at::kLong).view({-1, 1, 1});
  // The rows of the target whose successors the drafter predicts.
  const at::Tensor places = PositionsFrom(draft.anchors, 0, steps);
  const at::Tensor teacher = batch.head_input.index({text, places}).flatten(0, 2);
  const at::Tensor labels = batch.tokens.index({text, places + 1}).flatten();
  const at::Tensor known = HasColumn(teacher, target, columns);
  at::Tensor weights = draft.decay.repeat({draft.anchors.numel()}) * known;
  weights = weights / weights.sum().clamp_min(std::numeric_limits<float>::min());
  const HeadLoss loss = AddHeadGradients({.rows = draft.rows.flatten(0, 2),
                                          .teacher = teacher,
                                          .labels = columns.of_tokens.index({labels}),
                                          .weights = weights,
                                          .head = columns.target_head,
                                          .own_head = draft.own_head,
                                          .hard_share = 0});
  const at::Tensor counts = known.view({-1, steps}).sum(0).clamp_min(1).to(at::kDouble);
  const at::Tensor hits = loss.hits.logical_and(known).view({-1, steps}).sum(0) / counts;
  const double* const shares = hits.data_ptr<double>();
  return {.loss = (loss.losses * weights).sum().item<double>(),
          .labels = known.sum().item<int64_t>(),
          .hits = {shares, shares + steps}};
}

}  // namespace bastion::train
