#include "tools/train/models/parallelspec.h"

#include <filesystem>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "tools/train/models/anchors.h"
#include "tools/train/models/drafter_files.h"
#include "tools/train/models/products.h"

namespace bastion::train {
namespace {

constexpr int kAnchors = 16;  // Per text and step.
constexpr int kDefaultLayers = 4;
constexpr int kDefaultPositions = 8;
constexpr int kMaxPositions = 64;
constexpr double kDecay = 0.8;

std::string BlockOf(int layer) { return absl::StrCat("layers.", layer, "."); }

int PositionsOf(const DrafterShape& shape) {
  return shape.positions > 0 ? shape.positions : kDefaultPositions;
}

absl::Status CheckShape(const hub::ModelConfig& target, const DrafterShape& shape) {
  if (shape.mask_token < 0 || shape.mask_token >= target.dims.vocabulary) {
    return absl::InvalidArgumentError(absl::StrCat("--mask_token is ", shape.mask_token,
                                                   "; it must be a token of the target, from 0 to ",
                                                   target.dims.vocabulary - 1));
  }
  const int positions = PositionsOf(shape);
  if (positions < 2 || positions > kMaxPositions) {
    return absl::InvalidArgumentError(
        absl::StrCat("--positions is ", positions, "; it must be from 2 to ", kMaxPositions));
  }
  return CheckFeatureHead(target, FeatureLayersOf(target, shape), shape);
}

// The drafter's config: the target's dimensions, with blocks like Llama's.
hub::ModelConfig ConfigFor(const hub::ModelConfig& target, const DrafterShape& shape) {
  hub::ModelConfig config =
      LlamaDrafterConfig(target, shape.layers > 0 ? shape.layers : kDefaultLayers, shape);
  config.architecture = "PEagleSpeculator";
  return config;
}

// Only the first block reads joined rows.
hub::ModelConfig LayerConfig(const hub::ModelConfig& config, int layer) {
  hub::ModelConfig block = config;
  if (layer == 0) block.blocks.join = {.parts = 2, .feeds_qkv = true};
  return block;
}

// [B, 1, R + A M, R + A M] True where a row sees a row. The first R are those of tokens, the others
// the M mask rows of each anchor.
at::Tensor RowMask(const at::Tensor& anchors, int64_t rows, int64_t masks) {
  const int64_t texts = anchors.size(0), all = rows + anchors.size(1) * masks;
  const at::Tensor numbers = at::arange(rows, at::kLong);
  const at::Tensor last =
      at::cat({numbers.expand({texts, rows}), anchors.repeat_interleave(masks, 1) - 1}, 1);
  const at::Tensor sees_tokens = numbers.le(last.unsqueeze(-1));  // [B, R + A M, R]
  const at::Tensor order = at::arange(all - rows, at::kLong);
  const at::Tensor owner = order.div(masks, "floor");
  const at::Tensor sees_masks =
      owner.unsqueeze(1).eq(owner).logical_and(order.unsqueeze(1).ge(order));
  const at::Tensor own = at::constant_pad_nd(sees_masks, {0, 0, rows, 0}, false);
  return at::cat({sees_tokens, own.expand({texts, all, all - rows})}, -1).unsqueeze(1);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TrainableParallelSpec>> TrainableParallelSpec::Create(
    const FrozenTarget& target, const DrafterShape& shape, uint64_t seed) {
  RETURN_IF_ERROR(CheckShape(target.config, shape));
  auto drafter = std::unique_ptr<TrainableParallelSpec>(
      new TrainableParallelSpec(target, ConfigFor(target.config, shape), shape, seed));
  RETURN_IF_ERROR(drafter->BeginWithTarget());
  return drafter;
}

TrainableParallelSpec::TrainableParallelSpec(const FrozenTarget& target,
                                             const hub::ModelConfig& config,
                                             const DrafterShape& shape, uint64_t seed)
    : target_(target),
      config_(config),
      layer_ids_(FeatureLayersOf(target.config, shape)),
      positions_(PositionsOf(shape)),
      mask_token_(shape.mask_token),
      parameters_(seed),
      rotary_(config.blocks.rope, config.max_positions + positions_),
      columns_(target, shape.draft_tokens, parameters_) {
  const int64_t hidden = config.dims.hidden;
  const int64_t width = hidden * static_cast<int64_t>(layer_ids_.size());
  fuse_ = parameters_.AddMap("fc.weight", hidden, width);
  mask_features_ = parameters_.AddNormal("mask_hidden", {1, 1, width}, 1);
  for (int layer = 0; layer < config.dims.layers; ++layer) {
    layers_.emplace_back(parameters_, BlockOf(layer), LayerConfig(config, layer));
  }
  state_norm_ = parameters_.AddOnes(BlockOf(0) + "hidden_norm.weight", hidden);
  final_norm_ = parameters_.AddOnes("norm.weight", hidden);
  head_ = parameters_.AddTokenRows("lm_head.weight", columns_.target_head.size(0), hidden);
  decay_ = at::pow(kDecay, at::arange(positions_, at::kFloat));
}

absl::Status TrainableParallelSpec::BeginWithTarget() {
  const at::NoGradGuard no_gradients;
  const int64_t hidden = config_.dims.hidden;
  const int skipped = target_.config.dims.layers - config_.dims.layers;
  // The last feature layer passes through.
  fuse_.mul_(0.1).narrow(1, fuse_.size(1) - hidden, hidden).add_(at::eye(hidden));
  RETURN_IF_ERROR(CopyJoinedBlock(target_, skipped, BlockOf(0), parameters_));
  RETURN_IF_ERROR(
      target_.CopyFromLayer(skipped, target_.config.names.attention_norm + ".weight", state_norm_));
  for (int layer = 1; layer < config_.dims.layers; ++layer) {
    const std::string block = BlockOf(layer);
    for (const Parameter& parameter : parameters_.all()) {
      if (!absl::StartsWith(parameter.name, block)) continue;
      RETURN_IF_ERROR(target_.CopyFromLayer(skipped + layer, parameter.name.substr(block.size()),
                                            parameter.value));
    }
  }
  if (target_.config.blocks.norm == hub::NormKind::kRms) final_norm_.copy_(target_.final_norm);
  head_.copy_(columns_.target_head);
  return absl::OkStatus();
}

at::Tensor TrainableParallelSpec::Forward(const at::Tensor& features, const at::Tensor& tokens,
                                          const at::Tensor& anchors) const {
  const int64_t texts = anchors.size(0), count = anchors.size(1), masks = positions_ - 1;
  const auto rows = anchors.max().item<int64_t>();
  // The row of token t is number t − 1, which is also its position.
  const at::Tensor numbers = at::arange(rows, at::kLong);
  const double epsilon = config_.blocks.norm_epsilon;
  const at::Tensor mask_states = Product(mask_features_, fuse_).expand({texts, count * masks, -1});
  at::Tensor x = at::cat({Product(features.narrow(1, 0, rows), fuse_), mask_states}, 1);
  const at::Tensor ids = at::cat(
      {tokens.narrow(1, 1, rows), at::full({texts, count * masks}, mask_token_, tokens.options())},
      1);
  const Rotation rotation = rotary_.At(
      at::cat({numbers.expand({texts, rows}), PositionsFrom(anchors, 0, masks).flatten(1)}, 1));
  const at::Tensor mask = RowMask(anchors, rows, masks);
  for (const DecoderLayer& layer : layers_) {
    const bool joins = &layer == &layers_.front();
    const at::Tensor normed = joins
                                  ? at::cat({layer.InputNorm(at::embedding(target_.embedding, ids)),
                                             RmsNorm(x, state_norm_, epsilon)},
                                            -1)
                                  : layer.InputNorm(x);
    x = layer.Forward(x, normed, rotation, layer.Project(normed, rotation), mask);
  }
  const at::Tensor places =
      anchors - 1 + at::arange(texts, at::kLong).unsqueeze(-1) * x.size(1);  // [B, A]
  const at::Tensor roots =
      x.flatten(0, 1).index_select(0, places.flatten()).view({texts, count, 1, -1});
  const at::Tensor later = x.narrow(1, rows, count * masks).unflatten(1, {count, masks});
  return RmsNorm(at::cat({roots, later}, 2), final_norm_, epsilon);
}

StepLoss TrainableParallelSpec::AddGradients(const TextBatch& batch, Draws& draws) {
  const at::Tensor anchors = DrawAnchors(batch, kAnchors, positions_, draws);  // [B, A]
  return AddDraftHeadGradients({.rows = Forward(batch.features, batch.tokens, anchors),
                                .anchors = anchors,
                                .decay = decay_,
                                .own_head = head_},
                               batch, target_, columns_);
}

nlohmann::json TrainableParallelSpec::Config() const {
  nlohmann::json block = DecoderConfigJson(config_);
  block.erase("architectures");
  block["model_type"] = "llama";
  nlohmann::json json = FeatureLayersJson(layer_ids_);
  json.erase("use_aux_hidden_state");
  json["architectures"] = {config_.architecture};
  json["transformer_layer_config"] = std::move(block);
  json["draft_vocab_size"] = head_.size(0);
  json["target_hidden_size"] = target_.config.dims.hidden;
  json["mask_token_id"] = mask_token_;
  json["norm_before_residual"] = false;
  json["speculators_model_type"] = "peagle";
  json["speculators_version"] = "0.3.0";
  const std::string target = std::filesystem::path(target_.folder).filename().string();
  json["speculators_config"] = {
      {"algorithm", "peagle"},
      {"default_proposal_method", "greedy"},
      {"proposal_methods", {{{"proposal_type", "greedy"}, {"speculative_tokens", positions_}}}},
      {"verifier", {{"name_or_path", target}, {"architectures", {target_.config.architecture}}}}};
  return json;
}

}  // namespace bastion::train
