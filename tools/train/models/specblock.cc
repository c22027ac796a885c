#include "tools/train/models/specblock.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "tools/train/models/anchors.h"
#include "tools/train/models/block_loss.h"
#include "tools/train/models/drafter_files.h"
#include "tools/train/models/head_loss.h"
#include "tools/train/models/products.h"

namespace bastion::train {
namespace {

constexpr int kAnchors = 64;  // Per text and step.
constexpr int kDefaultLayers = 2;
constexpr int kDefaultPositions = 4;
constexpr int kMaxPositions = 64;
constexpr int64_t kRankWidth = 256;  // R, if the drafter is not narrower.
constexpr int64_t kRankTop = 20;
constexpr double kQueryDeviation = 0.02;
constexpr double kRankShare = 0.1;  // The rank head learns after this fraction of the run.
constexpr int kParts = 3;           // Condition, token and query.
constexpr char kInput[] = "input_layer.";
constexpr char kLayers[] = "layers.";

absl::Status CheckShape(const hub::ModelConfig& target, const hub::ModelConfig& drafter,
                        const DrafterShape& shape) {
  const hub::SpecBlockConfig& specblock = drafter.drafter.specblock;
  if (specblock.positions < 2 || specblock.positions > kMaxPositions) {
    return absl::InvalidArgumentError(absl::StrCat("--positions is ", specblock.positions,
                                                   "; it must be from 2 to ", kMaxPositions));
  }
  if (shape.specblock.learning.blocks < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--blocks is ", shape.specblock.learning.blocks, "; it must be at least 1"));
  }
  return CheckFeatureHead(target, drafter.drafter.head.target_layers, shape);
}

// The drafter's config: the target's dimensions, with fewer layers and blocks like Llama's.
hub::ModelConfig ConfigFor(const hub::ModelConfig& target, const DrafterShape& shape) {
  hub::ModelConfig config =
      LlamaDrafterConfig(target, shape.layers > 0 ? shape.layers : kDefaultLayers, shape);
  config.kind = hub::ModelKind::kSpecBlock;
  config.architecture = "LlamaForCausalLMSpecBlockShift";
  hub::SpecBlockConfig& specblock = config.drafter.specblock;
  specblock.positions = shape.positions > 0 ? shape.positions : kDefaultPositions;
  specblock.rank_classes = kRankClasses;
  specblock.path_positions = shape.specblock.path_positions;
  specblock.prefix_broadcast = shape.specblock.prefix_broadcast;
  hub::DraftHead& head = config.drafter.head;
  head.vocabulary = shape.draft_tokens.empty() ? target.dims.vocabulary
                                               : static_cast<int>(shape.draft_tokens.size());
  head.target_hidden = target.dims.hidden;
  head.target_layers = FeatureLayersOf(target, shape);
  return config;
}

// What the rows of a later block see in one layer.
struct Visible {
  KeysValues context;  // [B, G, R K, D] The rows of tokens up to the anchors.
  at::Tensor unseen;   // [B, 1, 1, A, 1, R K] True where the blocks of an anchor do not see.
  KeysValues path;     // [B, G, A, E, D] The rows of later blocks on the path. E may be 0.
  KeysValues own;      // [B, G, A, K, D]
};

// queries [B, H, A K, D] -> [B, H, A K, D].
at::Tensor Attend(const at::Tensor& queries, const Visible& visible) {
  const at::Tensor keys = at::cat({visible.path.keys, visible.own.keys}, 3);
  const at::Tensor values = at::cat({visible.path.values, visible.own.values}, 3);
  const int64_t anchors = keys.size(2), places = visible.own.keys.size(3), dims = keys.size(4);
  const int64_t texts = keys.size(0), kv_heads = keys.size(1), group = queries.size(1) / kv_heads;
  const int64_t rows = visible.context.keys.size(2);
  const at::Tensor scaled = queries / std::sqrt(static_cast<double>(dims));
  const at::Tensor context =
      BatchProduct(scaled.reshape({texts, kv_heads, group * anchors * places, dims}),
                   visible.context.keys.transpose(-1, -2))
          .view({texts, kv_heads, group, anchors, places, rows})
          .masked_fill(visible.unseen, -std::numeric_limits<float>::infinity());
  const at::Tensor future =
      at::ones({places, keys.size(3)}, at::kBool).triu(keys.size(3) - places + 1);
  const at::Tensor block =
      BatchProduct(scaled.reshape({texts, kv_heads, group, anchors, places, dims}),
                   keys.unsqueeze(2).transpose(-1, -2))
          .masked_fill(future, -std::numeric_limits<float>::infinity());
  const std::vector<at::Tensor> weights =
      at::softmax(at::cat({context, block}, -1), -1).split_with_sizes({rows, keys.size(3)}, -1);
  const at::Tensor from_context =
      BatchProduct(weights[0].reshape({texts, kv_heads, group * anchors * places, rows}),
                   visible.context.values)
          .view({texts, kv_heads, group, anchors, places, dims});
  return (from_context + BatchProduct(weights[1], values.unsqueeze(2))).flatten(1, 2).flatten(2, 3);
}

// The first `count` places of blocks [B, G, A, K, D].
KeysValues FirstPlaces(const KeysValues& block, int64_t count) {
  return {block.keys.narrow(3, 0, count), block.values.narrow(3, 0, count)};
}

}  // namespace

absl::StatusOr<std::unique_ptr<TrainableSpecBlock>> TrainableSpecBlock::Create(
    const FrozenTarget& target, const DrafterShape& shape, uint64_t seed) {
  const hub::ModelConfig config = ConfigFor(target.config, shape);
  RETURN_IF_ERROR(CheckShape(target.config, config, shape));
  auto drafter =
      std::unique_ptr<TrainableSpecBlock>(new TrainableSpecBlock(target, config, shape, seed));
  RETURN_IF_ERROR(drafter->BeginWithTarget());
  return drafter;
}

TrainableSpecBlock::TrainableSpecBlock(const FrozenTarget& target, const hub::ModelConfig& config,
                                       const DrafterShape& shape, uint64_t seed)
    : target_(target),
      config_(config),
      learning_(shape.specblock.learning),
      shifts_(shape.specblock.shift),
      parameters_(seed),
      rotary_(config.blocks.rope, config.max_positions + shape.specblock.learning.blocks *
                                                             config.drafter.specblock.positions),
      columns_(target, shape.draft_tokens, parameters_) {
  const int64_t hidden = config.dims.hidden;
  const auto input = [](const char* name) { return absl::StrCat(kInput, name, ".weight"); };
  condition_ = parameters_.AddMap(input("condition_proj"), hidden,
                                  hidden * static_cast<int64_t>(feature_layers().size()));
  condition_norm_ = parameters_.AddOnes(input("condition_norm"), hidden);
  token_norm_ = parameters_.AddOnes(input("token_norm"), hidden);
  query_norm_ = parameters_.AddOnes(input("query_norm"), hidden);
  queries_ = parameters_.AddTokenRows(input("position_queries"), specblock().positions, hidden);
  fuse_ = parameters_.AddMap(input("fuse"), hidden, kParts * hidden);
  for (int layer = 0; layer < config.dims.layers; ++layer) {
    layers_.emplace_back(parameters_, absl::StrCat(kLayers, layer, "."), config);
    if (layer == 0) continue;
    const std::string name = absl::StrCat("shift_proj.", layer - 1, ".weight");
    // Without a shift, the matrix stays as it begins. The optimizer steps maps of one shape
    // together, so it is none of them then.
    shift_.push_back(shifts_ ? parameters_.AddMap(name, hidden, 2 * hidden)
                             : parameters_.AddTokenRows(name, hidden, 2 * hidden));
  }
  final_norm_ = parameters_.AddOnes("norm.weight", hidden);
  head_ = parameters_.AddTokenRows("lm_head.weight", columns_.target_head.size(0), hidden);
  const int64_t inner = std::min(kRankWidth, hidden);
  rank_inner_ = parameters_.AddTokenRows("rank_head.0.weight", inner, hidden + kRankFeatures);
  rank_outer_ = parameters_.AddTokenRows("rank_head.2.weight", kRankClasses, inner);
}

absl::Status TrainableSpecBlock::BeginWithTarget() {
  const at::NoGradGuard no_gradients;
  const int64_t hidden = config_.dims.hidden;
  // The last feature layer passes through, to the condition and then to the rows.
  condition_.mul_(0.1).narrow(1, condition_.size(1) - hidden, hidden).add_(at::eye(hidden));
  fuse_.narrow(1, 0, hidden).mul_(0.1).add_(at::eye(hidden));
  queries_.mul_(kQueryDeviation * std::sqrt(hidden));
  for (at::Tensor& shift : shift_) shift.copy_(at::eye(hidden, 2 * hidden));
  const int skipped = target_.config.dims.layers - config_.dims.layers;
  const hub::TensorNames& names = config_.names;
  for (const Parameter& parameter : parameters_.all()) {
    if (!absl::StartsWith(parameter.name, kLayers)) continue;
    const std::string numbered = parameter.name.substr(sizeof(kLayers) - 1);
    const std::string name = numbered.substr(numbered.find('.') + 1);
    // Queries and keys in front of norms have another scale.
    if (target_.config.blocks.query_key_norm &&
        (absl::StartsWith(name, names.query) || absl::StartsWith(name, names.key))) {
      continue;
    }
    RETURN_IF_ERROR(target_.CopyFromLayer(std::stoi(numbered) + skipped, name, parameter.value));
  }
  if (target_.config.blocks.norm == hub::NormKind::kRms) final_norm_.copy_(target_.final_norm);
  head_.copy_(columns_.target_head);
  return absl::OkStatus();
}

at::Tensor TrainableSpecBlock::Enter(const at::Tensor& tokens, const at::Tensor& conditions) const {
  const double epsilon = config_.blocks.norm_epsilon;
  const std::vector<at::Tensor> parts = fuse_.chunk(kParts, 1);
  const at::Tensor embeddings = at::embedding(target_.embedding, tokens);
  const at::Tensor shared = Product(RmsNorm(conditions, condition_norm_, epsilon), parts[0]) +
                            Product(RmsNorm(embeddings, token_norm_, epsilon), parts[1]);
  at::Tensor rows = shared.unsqueeze(-2);  // All rows read them.
  if (!specblock().prefix_broadcast) {
    rows = at::constant_pad_nd(rows, {0, 0, 0, specblock().positions - 1});
  }
  return rows + Product(RmsNorm(queries_, query_norm_, epsilon), parts[2]);
}

at::Tensor TrainableSpecBlock::Shift(const at::Tensor& x, size_t layer) const {
  if (layer == 0 || !shifts_) return x;
  const at::Tensor before = at::cat({x.narrow(-2, 0, 1), x.narrow(-2, 0, x.size(-2) - 1)}, -2);
  return Product(at::cat({x, before}, -1), shift_[layer - 1]);
}

at::Tensor TrainableSpecBlock::Normed(const at::Tensor& states) const {
  return RmsNorm(states, final_norm_, config_.blocks.norm_epsilon);
}

std::vector<at::Tensor> TrainableSpecBlock::Forward(const at::Tensor& features,
                                                    const at::Tensor& tokens,
                                                    const at::Tensor& anchors,
                                                    const std::vector<int64_t>& starts) const {
  const int64_t places = specblock().positions, count = anchors.size(1);
  const auto rows = anchors.max().item<int64_t>();
  // The rows of token t are block t − 1, which is also the position of its first row.
  const at::Tensor numbers = at::arange(rows, at::kLong).unsqueeze(0);
  const Rotation rotation = rotary_.At(PositionsFrom(numbers, 0, places).flatten(1));
  at::Tensor x = Enter(tokens.narrow(1, 1, rows), Product(features.narrow(1, 0, rows), condition_));
  std::vector<Visible> visible;  // For each layer.
  for (size_t layer = 0; layer < layers_.size(); ++layer) {
    x = Shift(x, layer).flatten(1, 2);
    const at::Tensor normed = layers_[layer].InputNorm(x);
    const KeysValues context = layers_[layer].Project(normed, rotation);
    x = layers_[layer].Forward(x, normed, rotation, context).unflatten(1, {rows, places});
    const at::Tensor none = context.keys.new_empty(
        {anchors.size(0), context.keys.size(1), count, 0, context.keys.size(3)});
    visible.push_back({.context = context, .unseen = {}, .path = {none, none}, .own = {}});
  }
  const at::Tensor text = at::arange(anchors.size(0), at::kLong).unsqueeze(-1);
  std::vector<at::Tensor> states = {x.index({text, anchors - 1})};
  at::Tensor token = anchors;
  for (size_t block = 0; block < starts.size(); ++block) {
    const int64_t start = starts[block];
    token = token + start;
    const at::Tensor first = specblock().path_positions ? token - 1 : anchors - 1;
    const Rotation own = rotary_.At(PositionsFrom(first, 0, places).flatten(1));
    const at::Tensor unseen = at::arange(rows * places, at::kLong)
                                  .ge(((anchors - 1) * places + starts[0]).unsqueeze(-1))
                                  .view({-1, 1, 1, count, 1, rows * places});
    x = Enter(tokens.gather(1, token), states.back().select(2, start - 1));
    for (size_t layer = 0; layer < layers_.size(); ++layer) {
      Visible& sees = visible[layer];
      if (block > 0) {
        const KeysValues seen = FirstPlaces(sees.own, start);
        sees.path = {at::cat({sees.path.keys, seen.keys}, 3),
                     at::cat({sees.path.values, seen.values}, 3)};
      }
      x = Shift(x, layer).flatten(1, 2);
      const at::Tensor normed = layers_[layer].InputNorm(x);
      const KeysValues projected = layers_[layer].Project(normed, own);
      sees.own = {projected.keys.unflatten(2, {count, places}),
                  projected.values.unflatten(2, {count, places})};
      sees.unseen = unseen;
      x = layers_[layer]
              .Finish(x, Attend(layers_[layer].Queries(normed, own), sees))
              .unflatten(1, {count, places});
    }
    states.push_back(x);
  }
  return states;
}

int64_t TrainableSpecBlock::rank_top() const { return std::min(kRankTop, head_.size(0)); }

at::Tensor TrainableSpecBlock::RankLogits(const at::Tensor& normed, const at::Tensor& top) const {
  const at::Tensor inputs = at::cat({normed, RankFeatures(top)}, -1);
  return Product(at::silu(Product(inputs, rank_inner_)), rank_outer_);
}

void TrainableSpecBlock::BeginStep(int64_t step, double done) {
  ranks_learn_ = learning_.rank_steps < 0 ? done >= kRankShare : step > learning_.rank_steps;
}

double TrainableSpecBlock::AddRankGradients(const at::Tensor& rows, const at::Tensor& top,
                                            const at::Tensor& ranks,
                                            const at::Tensor& counts) const {
  const at::Tensor logits =
      RankLogits(rows.detach(), top)
          .view({counts.size(0), counts.size(1), counts.size(2), kRankClasses});
  const at::Tensor classes = RankClasses(ranks);
  const at::Tensor loss = learning_.ordinal_ranks ? OrdinalRankLoss(logits, classes)
                                                  : PlainRankLoss(logits, classes, counts);
  loss.backward();
  return loss.item<double>() / static_cast<double>(counts.size(0));
}

StepLoss TrainableSpecBlock::AddGradients(const TextBatch& batch, Draws& draws) {
  const int64_t places = specblock().positions, blocks = learning_.blocks;
  const at::Tensor anchors = DrawAnchors(batch, kAnchors, blocks * places, draws);  // [B, A]
  std::vector<int64_t> starts;
  for (int64_t block = 1; block < blocks; ++block) starts.push_back(1 + draws.Below(places));
  const at::Tensor rows =
      Normed(at::stack(Forward(batch.features, batch.tokens, anchors, starts))).flatten(0, 3);
  // The rows of the target whose successors the blocks predict.
  std::vector<at::Tensor> predicted;
  int64_t offset = 0;
  for (int64_t block = 0; block < blocks; ++block) {
    if (block > 0) offset += starts[block - 1];
    predicted.push_back(PositionsFrom(anchors, offset, places));
  }
  const at::Tensor text = at::arange(anchors.size(0), at::kLong).view({1, -1, 1, 1});
  const at::Tensor teacher = batch.head_input.index({text, at::stack(predicted)}).flatten(0, 3);
  const Ranking ranking = RankLabels({.rows = rows,
                                      .head = head_,
                                      .teacher = teacher,
                                      .target_head = target_.head,
                                      .columns = columns_.of_tokens,
                                      .top = ranks_learn_ ? rank_top() : 0});
  const at::Tensor ranks = ranking.ranks.view({blocks, -1, places});
  const at::Tensor known = ranks.gt(0), right = ranks.eq(1);
  at::Tensor counts = known;
  if (learning_.prefix_mask) {
    counts = counts.logical_and(ValidPrefix(right, starts, learning_.carries_mask));
  }
  StepLoss result;
  if (ranks_learn_) result.rank_loss = AddRankGradients(rows, ranking.top, ranks, counts);
  const at::Tensor chosen = counts.flatten().nonzero().squeeze(-1);
  result.labels = chosen.size(0);
  if (result.labels > 0) {
    const at::Tensor weights =
        PlaceWeights(counts, learning_.position_decay).flatten().index_select(0, chosen);
    const HeadLoss loss = AddHeadGradients({.rows = rows.index_select(0, chosen),
                                            .teacher = teacher.index_select(0, chosen),
                                            .labels = ranking.labels.index_select(0, chosen),
                                            .weights = weights,
                                            .head = columns_.target_head,
                                            .own_head = head_,
                                            .hard_share = 0});
    result.loss = (loss.losses * weights).sum().item<double>();
  }
  const at::Tensor hits = (right.sum(1).to(at::kDouble) / known.sum(1).clamp_min(1)).flatten();
  result.hits.assign(hits.data_ptr<double>(), hits.data_ptr<double>() + hits.numel());
  return result;
}

nlohmann::json TrainableSpecBlock::Config() const {
  nlohmann::json json = DecoderConfigJson(config_);
  json["model_type"] = "llama";
  json["diffspec_draft_token_num"] = specblock().positions;
  json["rank_classes"] = specblock().rank_classes;
  json["block_positions"] = specblock().path_positions ? "path" : "same";
  if (!specblock().prefix_broadcast) json["prefix_broadcast"] = false;
  json["num_ttt_blocks"] = learning_.blocks;
  json["draft_vocab_size"] = config_.drafter.head.vocabulary;
  json["target_hidden_size"] = config_.drafter.head.target_hidden;
  json["eagle_config"] = FeatureLayersJson(feature_layers());
  return json;
}

}  // namespace bastion::train
