#include "drafter_service/draft/specblock.h"

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "kernels/ops/pack.h"

namespace bastion::drafter {
namespace {

constexpr char kInput[] = "input_layer.";
enum Part { kCondition, kToken, kQuery, kParts };

absl::StatusOr<FeaturePair> ReadSpecBlockPair(const std::string& drafter_folder,
                                              const std::string& target_folder) {
  ASSIGN_OR_RETURN(FeaturePair pair, ReadFeaturePair(drafter_folder, target_folder));
  const int positions = pair.drafter.drafter.specblock.positions;
  pair.drafter.blocks.join = {.parts = kParts, .shift_rows = positions};
  pair.drafter.names.shift = "shift_proj.";
  return pair;
}

// The learned queries, and the place of each of `rows` rows among its K.
absl::Status LoadQueries(const nn::WeightLoader& loader, const hub::ModelConfig& config, int rows,
                         SpecBlockWeights& weights) {
  const int positions = config.drafter.specblock.positions;
  ASSIGN_OR_RETURN(weights.queries, loader.Table(absl::StrCat(kInput, "position_queries.weight"),
                                                 positions, config.dims.hidden));
  std::vector<TokenId> places(rows);
  for (int row = 0; row < rows; ++row) places[row] = row % positions;
  ASSIGN_OR_RETURN(weights.row_places, nn::IdsOn(loader.device(), places));
  return absl::OkStatus();
}

// What KeepShared needs for `rows` rows without prefix broadcast.
absl::Status LoadKeptRows(const nn::WeightLoader& loader, const hub::ModelConfig& config, int rows,
                          DType type, SpecBlockWeights& weights) {
  const int positions = config.drafter.specblock.positions;
  std::vector<TokenId> places(rows, rows);
  for (int row = 0; row < rows; row += positions) places[row] = row;
  ASSIGN_OR_RETURN(weights.kept_places, nn::IdsOn(loader.device(), places));
  const int64_t values = (int64_t{rows} + 1) * config.dims.hidden;
  ASSIGN_OR_RETURN(weights.kept_rows,
                   loader.device().Allocate(Bytes(type, values), "first rows of blocks"));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<SpecBlockModel>> SpecBlockModel::Read(
    const FeaturePair& pair, const nn::EngineOptions& options, nn::PackingPlan& plan) {
  const hub::ModelConfig& config = pair.drafter;
  const int width = config.dims.hidden;
  const nn::WeightLoader loader(*options.device, pair.checkpoint, options.formats, plan);
  const auto norm = [&](const char* name) {
    return loader.LoadNorm(absl::StrCat(kInput, name), config);
  };
  StatefulWeights weights;
  weights.feature_layers = pair.feature_layers();
  weights.feature_width = pair.feature_width();
  nn::StepCapacity capacity = nn::CapacityOf(config, options, kTreeRows);
  capacity.tokens += (config.drafter.specblock.positions - 1) * config.max_positions;
  ASSIGN_OR_RETURN(weights.decoder, nn::Decoder::Load(loader, config, options, capacity));
  ASSIGN_OR_RETURN(weights.vocabulary, LoadDraftVocabulary(pair, options, plan));
  SpecBlockWeights own;
  // Features are not normalized, so their magnitudes vary too much for int8.
  ASSIGN_OR_RETURN(
      own.condition,
      loader.StackedAs(nn::UnquantizedFormat(options.formats),
                       {nn::AllRows(absl::StrCat(kInput, "condition_proj.weight"), width)},
                       weights.feature_width));
  ASSIGN_OR_RETURN(
      own.fuse,
      loader.Stacked({nn::AllRows(absl::StrCat(kInput, "fuse.weight"), width)}, kParts * width));
  ASSIGN_OR_RETURN(own.condition_norm, norm("condition_norm"));
  ASSIGN_OR_RETURN(own.token_norm, norm("token_norm"));
  ASSIGN_OR_RETURN(own.query_norm, norm("query_norm"));
  RETURN_IF_ERROR(LoadQueries(loader, config, weights.decoder->capacity().rows, own));
  if (!config.drafter.specblock.prefix_broadcast) {
    RETURN_IF_ERROR(LoadKeptRows(loader, config, weights.decoder->capacity().rows,
                                 options.formats.activations, own));
  }
  if (config.drafter.specblock.rank_classes > 0) {
    ASSIGN_OR_RETURN(own.rank_head, RankHead::Load(pair, options.device->host()));
    ASSIGN_OR_RETURN(own.final_norm, ReadHostNorm(pair, config.names.final_norm, width));
  }
  RETURN_IF_ERROR(CheckAllRead(pair));
  return std::unique_ptr<SpecBlockModel>(new SpecBlockModel(std::move(weights), std::move(own)));
}

absl::StatusOr<CheckedDrafter> CheckSpecBlock(const std::string& drafter_folder,
                                              const std::string& target_folder,
                                              const nn::EngineOptions& options) {
  ASSIGN_OR_RETURN(const FeaturePair pair, ReadSpecBlockPair(drafter_folder, target_folder));
  nn::PackingPlan plan;  // Never run: no matrix is packed.
  ASSIGN_OR_RETURN(const auto model, SpecBlockModel::Read(pair, options, plan));
  const int positions = model->positions();
  return CheckedDrafter{pair.drafter, model->Cost(), pair.target.dims,
                        positions,    positions,     pair.feature_width()};
}

absl::StatusOr<std::unique_ptr<SpecBlockModel>> SpecBlockModel::Load(
    const std::string& drafter_folder, const std::string& target_folder,
    const nn::EngineOptions& options) {
  ASSIGN_OR_RETURN(const FeaturePair pair, ReadSpecBlockPair(drafter_folder, target_folder));
  nn::EngineOptions own = StatefulOptions(options);
  own.kv_tokens *= pair.drafter.drafter.specblock.positions;  // Rows of tokens.
  nn::PackingPlan plan;
  ASSIGN_OR_RETURN(auto model, Read(pair, own, plan));
  RETURN_IF_ERROR(plan.Run(drafter_folder, own));
  RETURN_IF_ERROR(model->Prepare());
  return model;
}

nn::ForwardCost SpecBlockModel::Cost() const {
  nn::ForwardCost cost = weights().decoder->Cost();
  cost.kv_bytes_per_token *= positions();
  cost.Add(weights().vocabulary.head);
  cost.Add(own_.condition);
  cost.Add(own_.fuse);
  return cost;
}

void SpecBlockModel::KeepShared(const kernels::Rows& rows, const nn::Norm& norm, int part) {
  nn::Activations& x = weights().decoder->activations();
  if (!config().drafter.specblock.prefix_broadcast) {
    x.Normalize(rows, norm, {own_.kept_rows.data(), config().dims.hidden, state_type()});
    kernels::Rows kept = rows;
    kept.tokens = own_.kept_places.as<int32_t>();
    x.Embed(kept, own_.kept_rows.data(), state_type());
  }
  x.Normalize(rows, norm, {});
  x.Keep(rows, part);
}

void SpecBlockModel::Enter(const kernels::Rows& rows, bool from_features) {
  nn::Activations& x = weights().decoder->activations();
  if (from_features) {
    x.Project(rows, own_.condition, features());
  } else {
    x.Embed(Numbered(rows), states(), state_type());
  }
  KeepShared(rows, own_.condition_norm, kCondition);
  x.Embed(rows, weights().vocabulary.table.data(), weights().vocabulary.type);
  KeepShared(rows, own_.token_norm, kToken);
  kernels::Rows places = rows;
  places.tokens = own_.row_places.as<int32_t>();
  x.Embed(places, own_.queries.data(), state_type());
  x.Normalize(rows, own_.query_norm, {});
  x.Keep(rows, kQuery);
  x.Join(rows);
  x.ProjectJoined(rows, own_.fuse);
}

absl::Status SpecBlockModel::Complete(int /*rows*/, absl::Span<const int> wanted, bool coupled,
                                      std::vector<Marginals>& marginals) {
  if (own_.rank_head.empty() || wanted.empty()) return absl::OkStatus();
  const int width = config().dims.hidden, count = static_cast<int>(wanted.size());
  const bool has_top = !coupled && marginals.front().candidates >= RankHead::kTop;
  std::vector<Marginals> ranked;
  if (!has_top) {
    ASSIGN_OR_RETURN(ranked, RankUncoupled(RankHead::kTop));
  }
  std::vector<float> states(static_cast<size_t>(count) * width);
  float* to = states.data();
  for (const int row : wanted) {
    kernels::ConvertElements(state_type(), state(row), width, DType::kF32, to);
    own_.final_norm.Apply(to);
    to += width;
  }
  rank_logits_ = own_.rank_head.Logits(states.data(), count, has_top ? marginals : ranked);
  const std::vector<uint8_t> classes = RankHead::Classes(rank_logits_);
  auto next = classes.begin();
  for (Marginals& one : marginals) {
    one.buckets.assign(next, next + positions());
    next += positions();
  }
  return absl::OkStatus();
}

}  // namespace bastion::drafter
