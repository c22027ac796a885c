#include "tools/train/models/eagle.h"

#include <cmath>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "tools/train/models/anchors.h"
#include "tools/train/models/drafter_files.h"
#include "tools/train/models/products.h"

namespace bastion::train {
namespace {

constexpr int kAnchors = 32;  // Chains per text and step.
constexpr int kDefaultSteps = 7;
constexpr double kDecay = 0.8;
constexpr char kBlock[] = "midlayer.";

absl::Status CheckShape(const hub::ModelConfig& target, const hub::ModelConfig& drafter,
                        const DrafterShape& shape) {
  if (shape.layers > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--layers is ", shape.layers, "; an EAGLE-3 drafter has one layer"));
  }
  return CheckFeatureHead(target, drafter.drafter.head.target_layers, shape);
}

// The drafter's config: the target's dimensions, with one layer and blocks like Llama's.
hub::ModelConfig ConfigFor(const hub::ModelConfig& target, const DrafterShape& shape) {
  hub::ModelConfig config = LlamaDrafterConfig(target, /*layers=*/1, shape);
  config.kind = hub::ModelKind::kEagle;
  config.architecture = "LlamaForCausalLMEagle3";
  config.blocks.join = {.parts = 2, .feeds_qkv = true};
  hub::DraftHead& head = config.drafter.head;
  head.vocabulary = shape.draft_tokens.empty() ? target.dims.vocabulary
                                               : static_cast<int>(shape.draft_tokens.size());
  head.target_hidden = target.dims.hidden;
  head.target_layers = FeatureLayersOf(target, shape);
  return config;
}

// What the rows of one draft step see.
struct Visible {
  KeysValues context;           // [B, G, L, D] The rows made from features.
  at::Tensor unseen;            // [B, A, L] True where the chain of an anchor does not see a row.
  std::vector<KeysValues> own;  // [B, G, A, D] each: the later rows of the chains.
};

// queries [B, H, A, D] -> [B, H, A, D]. A row of a chain sees the context up to its anchor, and the
// chain's own rows.
at::Tensor Attend(const at::Tensor& queries, const Visible& visible) {
  const int64_t texts = queries.size(0), anchors = queries.size(2), dims = queries.size(3);
  const int64_t kv_heads = visible.context.keys.size(1), rows = visible.context.keys.size(2);
  const int64_t group = queries.size(1) / kv_heads;
  const at::Tensor scaled = queries / std::sqrt(static_cast<double>(dims));
  at::Tensor scores = BatchProduct(scaled.reshape({texts, kv_heads, group * anchors, dims}),
                                   visible.context.keys.transpose(-1, -2))
                          .view({texts, kv_heads, group, anchors, rows})
                          .masked_fill(visible.unseen.unsqueeze(1).unsqueeze(1),
                                       -std::numeric_limits<float>::infinity());
  std::vector<at::Tensor> keys, values;
  for (const KeysValues& own : visible.own) {
    keys.push_back(own.keys.unsqueeze(2));
    values.push_back(own.values.unsqueeze(2));
  }
  if (!keys.empty()) {
    const at::Tensor grouped = scaled.unflatten(1, {kv_heads, group}).unsqueeze(-2);
    scores = at::cat({scores, (grouped * at::stack(keys, -2)).sum(-1)}, -1);
  }
  const at::Tensor weights = at::softmax(scores, -1);
  at::Tensor attended =
      BatchProduct(weights.narrow(-1, 0, rows).reshape({texts, kv_heads, group * anchors, rows}),
                   visible.context.values);
  attended = attended.view({texts, kv_heads, group, anchors, dims});
  if (!values.empty()) {
    const at::Tensor own = weights.narrow(-1, rows, weights.size(-1) - rows).unsqueeze(-1);
    attended = attended + (own * at::stack(values, -2)).sum(-2);
  }
  return attended.flatten(1, 2);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TrainableEagle>> TrainableEagle::Create(const FrozenTarget& target,
                                                                       const DrafterShape& shape,
                                                                       uint64_t seed) {
  const hub::ModelConfig config = ConfigFor(target.config, shape);
  RETURN_IF_ERROR(CheckShape(target.config, config, shape));
  auto drafter = std::unique_ptr<TrainableEagle>(new TrainableEagle(target, config, shape, seed));
  RETURN_IF_ERROR(drafter->BeginWithTarget());
  return drafter;
}

TrainableEagle::TrainableEagle(const FrozenTarget& target, const hub::ModelConfig& config,
                               const DrafterShape& shape, uint64_t seed)
    : target_(target),
      config_(config),
      steps_(shape.draft_steps > 0 ? shape.draft_steps : kDefaultSteps),
      parameters_(seed),
      rotary_(config.blocks.rope, config.max_positions + steps_),
      layer_(parameters_, kBlock, config),
      columns_(target, shape.draft_tokens, parameters_) {
  const int64_t hidden = config.dims.hidden;
  fuse_ = parameters_.AddMap("fc.weight", hidden,
                             hidden * static_cast<int64_t>(feature_layers().size()));
  state_norm_ = parameters_.AddOnes(absl::StrCat(kBlock, "hidden_norm.weight"), hidden);
  final_norm_ = parameters_.AddOnes("norm.weight", hidden);
  head_ = parameters_.AddTokenRows("lm_head.weight", columns_.target_head.size(0), hidden);
  decay_ = at::pow(kDecay, at::arange(steps_, at::kFloat));
}

absl::Status TrainableEagle::BeginWithTarget() {
  const at::NoGradGuard no_gradients;
  const int64_t hidden = config_.dims.hidden;
  const int last = target_.config.dims.layers - 1;
  // The last feature layer passes through.
  fuse_.mul_(0.1).narrow(1, fuse_.size(1) - hidden, hidden).add_(at::eye(hidden));
  RETURN_IF_ERROR(CopyJoinedBlock(target_, last, kBlock, parameters_));
  RETURN_IF_ERROR(
      target_.CopyFromLayer(last, config_.names.attention_norm + ".weight", state_norm_));
  if (target_.config.blocks.norm == hub::NormKind::kRms) final_norm_.copy_(target_.final_norm);
  head_.copy_(columns_.target_head);
  return absl::OkStatus();
}

at::Tensor TrainableEagle::Join(const at::Tensor& tokens, const at::Tensor& states) const {
  return at::cat({layer_.InputNorm(at::embedding(target_.embedding, tokens)),
                  RmsNorm(states, state_norm_, config_.blocks.norm_epsilon)},
                 -1);
}

at::Tensor TrainableEagle::Forward(const at::Tensor& features, const at::Tensor& tokens,
                                   const at::Tensor& anchors) const {
  const auto rows = anchors.max().item<int64_t>();
  // The row of token t is number t − 1, which is also its position.
  const at::Tensor numbers = at::arange(rows, at::kLong);
  const at::Tensor states = Product(features.narrow(1, 0, rows), fuse_);
  const at::Tensor joined = Join(tokens.narrow(1, 1, rows), states);
  Visible visible = {.context = layer_.Project(joined, rotary_.At(numbers)),
                     .unseen = numbers.ge(anchors.unsqueeze(-1)),
                     .own = {}};
  const at::Tensor text = at::arange(anchors.size(0), at::kLong).unsqueeze(-1);
  at::Tensor x = states.index({text, anchors - 1});       // [B, A, C]
  at::Tensor normed = joined.index({text, anchors - 1});  // [B, A, 2 C]
  std::vector<at::Tensor> outputs;
  for (int step = 0; step < steps_; ++step) {
    const Rotation rotation = rotary_.At(anchors + (step - 1));
    if (step > 0) {
      normed = Join(tokens.gather(1, anchors + step), x);
      visible.own.push_back(layer_.Project(normed, rotation));
    }
    x = layer_.Finish(x, Attend(layer_.Queries(normed, rotation), visible));
    outputs.push_back(RmsNorm(x, final_norm_, config_.blocks.norm_epsilon));
  }
  return at::stack(outputs, 2);
}

StepLoss TrainableEagle::AddGradients(const TextBatch& batch, Draws& draws) {
  const at::Tensor anchors = DrawAnchors(batch, kAnchors, steps_, draws);  // [B, A]
  return AddDraftHeadGradients({.rows = Forward(batch.features, batch.tokens, anchors),
                                .anchors = anchors,
                                .decay = decay_,
                                .own_head = head_},
                               batch, target_, columns_);
}

nlohmann::json TrainableEagle::Config() const {
  nlohmann::json json = DecoderConfigJson(config_);
  json["model_type"] = "llama";
  json["draft_vocab_size"] = config_.drafter.head.vocabulary;
  json["target_hidden_size"] = config_.drafter.head.target_hidden;
  json["eagle_config"] = FeatureLayersJson(feature_layers());
  return json;
}

}  // namespace bastion::train
