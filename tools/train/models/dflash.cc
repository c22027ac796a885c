#include "tools/train/models/dflash.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "tools/train/models/anchors.h"
#include "tools/train/models/drafter_files.h"
#include "tools/train/models/head_loss.h"
#include "tools/train/models/products.h"

namespace bastion::train {
namespace {

constexpr int kAnchors = 16;  // Blocks per text and step.
constexpr int kDefaultLayers = 4;
constexpr int kDefaultBlock = 8;
// Version 2, as the published drafters.
constexpr int kTaps = 2;
constexpr int kGroup = 16;
constexpr int kCandidates = 16;
// The published drafters have 256, for 40 times as many tokens as a small target has.
constexpr int kDefaultRank = 64;

// γ of the decay: 4 for blocks of 8, 5 for 10 and 7 for 16 (section 4.2 of the paper).
double DecayLength(int block) { return block <= 8 ? 4 : block <= 12 ? 5 : 7; }

absl::Status CheckShape(const hub::ModelConfig& target, const hub::ModelConfig& drafter) {
  const ModelDims& dims = target.dims;
  for (const int layer : drafter.drafter.dflash.target_layer_ids) {
    if (layer >= 0 && layer < dims.layers) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "--feature_layers names layer ", layer, "; the target has layers 0 to ", dims.layers - 1));
  }
  if (drafter.drafter.dflash.mask_token < 0 ||
      drafter.drafter.dflash.mask_token >= dims.vocabulary) {
    return absl::InvalidArgumentError(
        absl::StrCat("--mask_token is ", drafter.drafter.dflash.mask_token,
                     "; it must be a token of the target that occurs in no text, from 0 to ",
                     dims.vocabulary - 1));
  }
  if (drafter.drafter.dflash.block_size < 2) {
    return absl::InvalidArgumentError("--block must be at least 2");
  }
  return absl::OkStatus();
}

// The drafter's config: the target's dimensions, with fewer layers and blocks like Qwen3's.
hub::ModelConfig ConfigFor(const hub::ModelConfig& target, const DrafterShape& shape) {
  hub::ModelConfig config = target;
  config.kind = hub::ModelKind::kDflash;
  config.architecture = "DFlashDraftModel";
  config.names = hub::TensorNames();
  config.dims.layers = shape.layers > 0 ? shape.layers : kDefaultLayers;
  if (shape.intermediate > 0) config.dims.intermediate = shape.intermediate;
  config.blocks.norm = hub::NormKind::kRms;
  config.blocks.mlp = hub::MlpKind::kGatedSilu;
  config.blocks.query_key_norm = true;
  config.blocks.parallel_residual = false;
  config.blocks.rope = hub::RopeConfig();
  config.blocks.rope.theta = target.blocks.rope.theta;
  config.blocks.rope.dims = config.dims.head_dim;
  hub::DFlashConfig& dflash = config.drafter.dflash;
  dflash.block_size = shape.block > 0 ? shape.block : kDefaultBlock;
  dflash.num_target_layers = target.dims.layers;
  dflash.target_layer_ids = shape.feature_layers;
  if (shape.feature_layers.empty()) {
    dflash.target_layer_ids = hub::DefaultTargetLayerIds(target.dims.layers, config.dims.layers);
  }
  dflash.mask_token = shape.mask_token;
  return config;
}

// The same for version 2.
hub::ModelConfig SecondConfigFor(const hub::ModelConfig& target, const DrafterShape& shape) {
  hub::ModelConfig config = ConfigFor(target, shape);
  config.architecture = "DFlash2DraftModel";
  config.tie_word_embeddings = false;
  hub::DFlashConfig& dflash = config.drafter.dflash;
  config.blocks.convolution = {.taps = kTaps,
                               .group = std::gcd(kGroup, config.dims.hidden),
                               .block_rows = dflash.block_size};
  dflash.selector_rank = shape.selector.rank > 0 ? shape.selector.rank : kDefaultRank;
  dflash.selector_candidates = std::min(kCandidates, config.dims.vocabulary);
  return config;
}

double SumOf(const at::Tensor& losses, const at::Tensor& weights) {
  return (losses * weights).sum().item<double>();
}

// For each position, how many of hits [N P] are true.
std::vector<double> Shares(const at::Tensor& hits, int64_t positions) {
  const at::Tensor shares = hits.to(at::kDouble).view({-1, positions}).mean(0);
  const double* const values = shares.const_data_ptr<double>();
  return {values, values + positions};
}

// [B, 1, A K, T + A K] True where a block's row sees: the context before its anchor, and the block.
at::Tensor BlockMask(const at::Tensor& anchors, int64_t context, int64_t block) {
  const int64_t count = anchors.size(1);
  const at::Tensor limits = anchors.repeat_interleave(block, 1).unsqueeze(-1);
  const at::Tensor sees_context = at::arange(context, at::kLong).lt(limits);
  const at::Tensor owner = at::arange(count, at::kLong).repeat_interleave(block);
  const at::Tensor own = owner.unsqueeze(1).eq(owner).expand({anchors.size(0), -1, -1});
  return at::cat({sees_context, own}, -1).unsqueeze(1);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TrainableDflash>> TrainableDflash::Create(const FrozenTarget& target,
                                                                         const DrafterShape& shape,
                                                                         uint64_t seed,
                                                                         DflashVersion version) {
  const hub::ModelConfig config = version == DflashVersion::kFirst
                                      ? ConfigFor(target.config, shape)
                                      : SecondConfigFor(target.config, shape);
  RETURN_IF_ERROR(CheckShape(target.config, config));
  auto drafter =
      std::unique_ptr<TrainableDflash>(new TrainableDflash(target, config, shape.selector, seed));
  RETURN_IF_ERROR(drafter->BeginWithTarget());
  return drafter;
}

TrainableDflash::TrainableDflash(const FrozenTarget& target, const hub::ModelConfig& config,
                                 const SelectorLearning& selector, uint64_t seed)
    : target_(target),
      config_(config),
      parameters_(seed),
      rotary_(config.blocks.rope, config.max_positions + config.drafter.dflash.block_size) {
  const int64_t hidden = config.dims.hidden;
  const int64_t features = hidden * static_cast<int64_t>(feature_layers().size());
  fuse_ = parameters_.AddMap("fc.weight", hidden, features);
  context_norm_ = parameters_.AddOnes("hidden_norm.weight", hidden);
  final_norm_ = parameters_.AddOnes("norm.weight", hidden);
  for (int layer = 0; layer < config.dims.layers; ++layer) {
    layers_.emplace_back(parameters_, absl::StrCat("layers.", layer, "."), config);
  }
  if (config.drafter.dflash.selector_rank > 0) {
    pairs_.emplace(target, SelectorLearning{config.drafter.dflash.selector_rank, selector.weight},
                   parameters_);
  }
  const int positions = config.drafter.dflash.block_size - 1;
  decay_ =
      at::exp(at::arange(positions, at::kFloat) / -DecayLength(config.drafter.dflash.block_size));
  decay_ = decay_ / decay_.sum();
}

absl::Status TrainableDflash::BeginWithTarget() {
  const at::NoGradGuard no_gradients;
  const int64_t hidden = config_.dims.hidden;
  // The last feature layer passes through.
  fuse_.mul_(0.1).narrow(1, fuse_.size(1) - hidden, hidden).add_(at::eye(hidden));
  const int skipped = target_.config.dims.layers - config_.dims.layers;
  for (const Parameter& parameter : parameters_.all()) {
    const std::string& name = parameter.name;
    if (!absl::StartsWith(name, "layers.")) continue;
    const size_t dot = name.find('.', sizeof("layers.") - 1);
    const int layer = std::stoi(name.substr(sizeof("layers.") - 1)) + skipped;
    // A smaller feed-forward layer begins with the first units of the target's.
    RETURN_IF_ERROR(target_.CopyFromLayer(layer, name.substr(dot + 1), parameter.value));
  }
  RETURN_IF_ERROR(target_.CopyFromLayer(target_.config.dims.layers - 1,
                                        target_.config.names.attention_norm + ".weight",
                                        context_norm_));
  if (target_.config.blocks.norm == hub::NormKind::kRms) final_norm_.copy_(target_.final_norm);
  return absl::OkStatus();
}

at::Tensor TrainableDflash::Forward(const at::Tensor& features, const at::Tensor& tokens,
                                    const at::Tensor& anchors) const {
  const int64_t block = config_.drafter.dflash.block_size;
  const double epsilon = config_.blocks.norm_epsilon;
  const at::Tensor context = RmsNorm(Product(features, fuse_), context_norm_, epsilon);
  const at::Tensor masks = at::full({tokens.size(0), tokens.size(1), block - 1},
                                    config_.drafter.dflash.mask_token, tokens.options());
  const at::Tensor ids = at::cat({tokens.unsqueeze(-1), masks}, -1).flatten(1);
  at::Tensor x = at::embedding(target_.embedding, ids);  // [B, A K, C]
  const Rotation context_rotation = rotary_.At(at::arange(features.size(1), at::kLong));
  const Rotation block_rotation = rotary_.At(PositionsFrom(anchors, 0, block).flatten(1));
  const at::Tensor mask = BlockMask(anchors, features.size(1), block);
  for (const DecoderLayer& layer : layers_) {
    const at::Tensor normed = layer.Mixed(layer.InputNorm(x));
    const KeysValues visible =
        layer.Project(context, context_rotation).Then(layer.Project(normed, block_rotation));
    x = layer.Forward(x, normed, block_rotation, visible, mask);
  }
  return RmsNorm(x, final_norm_, epsilon)
      .unflatten(1, {anchors.size(1), block})
      .narrow(2, 1, block - 1);
}

StepLoss TrainableDflash::AddGradients(const TextBatch& batch, Draws& draws) {
  const int64_t positions = config_.drafter.dflash.block_size - 1;
  const at::Tensor anchors = DrawAnchors(batch, kAnchors, positions, draws);  // [B, A]
  const auto longest = anchors.max().item<int64_t>();
  const at::Tensor rows =
      Forward(batch.features.narrow(1, 0, longest), batch.tokens.gather(1, anchors), anchors);
  const at::Tensor text = at::arange(anchors.size(0), at::kLong).view({-1, 1, 1});
  // The rows of the target whose successors the block predicts.
  const at::Tensor places = PositionsFrom(anchors, 0, positions);
  HeadLossArgs args = {.rows = rows.flatten(0, 2),
                       .teacher = batch.head_input.index({text, places}).flatten(0, 2),
                       .labels = batch.tokens.index({text, places + 1}).flatten(),
                       .weights = (decay_ / anchors.numel()).repeat({anchors.numel()}),
                       .head = target_.head};
  PairLoss pairs;
  if (pairs_.has_value()) {
    args.top = config_.drafter.dflash.selector_candidates;
    args.further = [&](const TopLogits& top) {
      pairs = pairs_->AddGradients({.rows = args.rows.detach(),
                                    .teacher = args.teacher,
                                    .before = batch.tokens.index({text, places}).flatten(),
                                    .labels = args.labels,
                                    .weights = args.weights,
                                    .hard_share = args.hard_share},
                                   top);
      return pairs.gradient;
    };
  }
  const HeadLoss loss = AddHeadGradients(args);
  StepLoss step = {.loss = SumOf(loss.losses, args.weights),
                   .labels = loss.losses.numel(),
                   .hits = Shares(loss.hits, positions)};
  if (pairs_.has_value()) {
    step.pair_loss = SumOf(pairs.losses, args.weights);
    step.pair_hits = Shares(pairs.hits, positions);
  }
  return step;
}

std::vector<Parameter> TrainableDflash::Exported() const {
  return pairs_.has_value() ? pairs_->Exported(parameters_.all()) : parameters_.all();
}

nlohmann::json TrainableDflash::Config() const {
  const hub::DFlashConfig& dflash = config_.drafter.dflash;
  nlohmann::json json = DecoderConfigJson(config_);
  json["num_target_layers"] = dflash.num_target_layers;
  json["layer_types"] = std::vector<std::string>(config_.dims.layers, "full_attention");
  nlohmann::json& own = json["dflash_config"];
  own = {{"target_layer_ids", dflash.target_layer_ids}, {"mask_token_id", dflash.mask_token}};
  if (!pairs_.has_value()) {
    json["block_size"] = dflash.block_size;
    return json;
  }
  json.erase("rope_theta");
  json["rope_parameters"] = {{"rope_theta", config_.blocks.rope.theta}, {"rope_type", "default"}};
  json["is_causal"] = false;
  own["block_size"] = dflash.block_size;
  own["conv_kernel_size"] = config_.blocks.convolution.taps;
  own["conv_group_size"] = config_.blocks.convolution.group;
  own["selector_rank"] = dflash.selector_rank;
  own["selector_top_k"] = dflash.selector_candidates;
  return json;
}

}  // namespace bastion::train
