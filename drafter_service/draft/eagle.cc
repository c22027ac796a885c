#include "drafter_service/draft/eagle.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "kernels/ops/pack.h"

namespace bastion::drafter {
namespace {

absl::StatusOr<FeaturePair> ReadEaglePair(const std::string& drafter_folder,
                                          const std::string& target_folder) {
  ASSIGN_OR_RETURN(FeaturePair pair, ReadFeaturePair(drafter_folder, target_folder));
  pair.drafter.blocks.join = {.parts = 2, .feeds_qkv = true};
  return pair;
}

absl::Status ReadFeatureNorms(const FeaturePair& pair, EagleWeights& weights) {
  if (pair.checkpoint->Has("input_norm.weight")) {
    ASSIGN_OR_RETURN(weights.features_norm, ReadHostNorm(pair, "input_norm", pair.feature_width()));
  }
  if (!pair.checkpoint->Has("fc_norm.0.weight")) return absl::OkStatus();
  for (size_t i = 0; i < pair.feature_layers().size(); ++i) {
    ASSIGN_OR_RETURN(weights.layer_norms.emplace_back(),
                     ReadHostNorm(pair, absl::StrCat("fc_norm.", i), pair.target.dims.hidden));
  }
  return absl::OkStatus();
}

// [F] What the mask rows of P-EAGLE read in place of features.
absl::StatusOr<std::vector<float>> ReadMaskFeatures(const FeaturePair& pair) {
  constexpr char kName[] = "mask_hidden";  // [1, 1, F], [1, F] or [F]
  if (pair.drafter.kind != hub::ModelKind::kParallelEagle) return std::vector<float>();
  const int width = pair.feature_width();
  ASSIGN_OR_RETURN(const hub::TensorView found, pair.checkpoint->Find(kName));
  std::vector<int64_t> shape(std::max<size_t>(found.shape.size(), 1), 1);
  shape.back() = width;
  ASSIGN_OR_RETURN(const hub::TensorView view, pair.checkpoint->Tensor(kName, shape));
  std::vector<float> features(width);
  kernels::ConvertElements(view.dtype, view.data, width, DType::kF32, features.data());
  return features;
}

}  // namespace

absl::StatusOr<std::unique_ptr<EagleModel>> EagleModel::Read(const FeaturePair& pair,
                                                             const nn::EngineOptions& options,
                                                             nn::PackingPlan& plan) {
  const hub::ModelConfig& config = pair.drafter;
  const int width = config.dims.hidden;
  const nn::WeightLoader loader(*options.device, pair.checkpoint, options.formats, plan);
  StatefulWeights weights;
  weights.feature_layers = pair.feature_layers();
  weights.feature_width = pair.feature_width();
  ASSIGN_OR_RETURN(weights.decoder, nn::Decoder::Load(loader, config, options,
                                                      nn::CapacityOf(config, options, kTreeRows)));
  ASSIGN_OR_RETURN(weights.vocabulary, LoadDraftVocabulary(pair, options, plan));
  EagleWeights own;
  // Features are not normalized, so their magnitudes vary too much for int8.
  ASSIGN_OR_RETURN(own.fuse,
                   loader.StackedAs(nn::UnquantizedFormat(options.formats),
                                    {nn::AllRows("fc.weight", width)}, weights.feature_width));
  const std::string block = config.names.Block(0);
  ASSIGN_OR_RETURN(own.token_norm, loader.LoadNorm(block + config.names.attention_norm, config));
  ASSIGN_OR_RETURN(own.state_norm, loader.LoadNorm(block + "hidden_norm", config));
  RETURN_IF_ERROR(ReadFeatureNorms(pair, own));
  ASSIGN_OR_RETURN(weights.mask_features, ReadMaskFeatures(pair));
  if (config.drafter.eagle.norm_output && config.kind == hub::ModelKind::kEagle) {
    ASSIGN_OR_RETURN(own.output_norm, ReadHostNorm(pair, config.names.final_norm, width));
  }
  RETURN_IF_ERROR(CheckAllRead(pair));
  return std::unique_ptr<EagleModel>(new EagleModel(std::move(weights), std::move(own)));
}

absl::StatusOr<CheckedDrafter> CheckEagle(const std::string& drafter_folder,
                                          const std::string& target_folder,
                                          const nn::EngineOptions& options) {
  ASSIGN_OR_RETURN(const FeaturePair pair, ReadEaglePair(drafter_folder, target_folder));
  nn::PackingPlan plan;  // Never run: no matrix is packed.
  ASSIGN_OR_RETURN(const auto model, EagleModel::Read(pair, options, plan));
  const int positions = model->positions();
  return CheckedDrafter{pair.drafter, model->Cost(), pair.target.dims,
                        positions,    positions,     pair.feature_width()};
}

absl::StatusOr<std::unique_ptr<EagleModel>> EagleModel::Load(const std::string& drafter_folder,
                                                             const std::string& target_folder,
                                                             const nn::EngineOptions& options) {
  ASSIGN_OR_RETURN(const FeaturePair pair, ReadEaglePair(drafter_folder, target_folder));
  const nn::EngineOptions own = StatefulOptions(options);
  nn::PackingPlan plan;
  ASSIGN_OR_RETURN(auto model, Read(pair, own, plan));
  RETURN_IF_ERROR(plan.Run(drafter_folder, own));
  RETURN_IF_ERROR(model->Prepare());
  return model;
}

nn::ForwardCost EagleModel::Cost() const {
  nn::ForwardCost cost = weights().decoder->Cost();
  cost.Add(weights().vocabulary.head);
  cost.Add(own_.fuse);
  return cost;
}

void EagleModel::Enter(const kernels::Rows& rows, bool from_features) {
  enum Part { kToken, kState };
  nn::Activations& x = weights().decoder->activations();
  x.Embed(rows, weights().vocabulary.table.data(), weights().vocabulary.type);
  x.Normalize(rows, own_.token_norm, {});
  x.Keep(rows, kToken);
  if (from_features) {
    x.Project(rows, own_.fuse, features());
  } else {
    x.Embed(Numbered(rows), states(), state_type());
  }
  x.Normalize(rows, own_.state_norm, {});
  x.Keep(rows, kState);
  if (config().drafter.eagle.norm_before_residual) x.Restart(rows);
  x.Join(rows);
}

void EagleModel::EditFeatures(float* values) const {
  if (!own_.features_norm.empty()) own_.features_norm.Apply(values);
  for (const HostNorm& norm : own_.layer_norms) {
    norm.Apply(values);
    values += norm.weight.size();
  }
}

absl::Status EagleModel::Complete(int rows, absl::Span<const int> /*wanted*/, bool /*coupled*/,
                                  std::vector<Marginals>& /*marginals*/) {
  if (own_.output_norm.empty()) return absl::OkStatus();
  const int width = config().dims.hidden;
  std::vector<float> values(width);
  for (int row = 0; row < rows; ++row) {
    kernels::ConvertElements(state_type(), state(row), width, DType::kF32, values.data());
    own_.output_norm.Apply(values.data());
    kernels::ConvertElements(DType::kF32, values.data(), width, state_type(), mutable_state(row));
  }
  return absl::OkStatus();
}

}  // namespace bastion::drafter
