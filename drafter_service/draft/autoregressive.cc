#include "drafter_service/draft/autoregressive.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/hub/json_file.h"
#include "engine/model/row_buckets.h"

namespace bastion::drafter {
namespace {

// INVALID_ARGUMENT if the two folders have tokenizers with different models: then a token id does
// not mean the same text.
absl::Status CheckTokenizers(const std::string& drafter_folder, const std::string& target_folder) {
  constexpr char kFile[] = "/tokenizer.json";
  ASSIGN_OR_RETURN(const auto drafter,
                   hub::JsonObject::ReadOptional(absl::StrCat(drafter_folder, kFile)));
  ASSIGN_OR_RETURN(const auto target,
                   hub::JsonObject::ReadOptional(absl::StrCat(target_folder, kFile)));
  const nlohmann::json* const own = drafter.Find("model");
  const nlohmann::json* const other = target.Find("model");
  if (own == nullptr || other == nullptr || *own == *other) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(drafter_folder, kFile, " differs from ", target_folder, kFile,
                   "; an autoregressive drafter needs the tokenizer of its target"));
}

}  // namespace

absl::Status CheckAutoregressivePair(const std::string& drafter_folder,
                                     const std::string& target_folder) {
  ASSIGN_OR_RETURN(const hub::ModelConfig drafter, hub::ReadModelConfig(drafter_folder));
  ASSIGN_OR_RETURN(const hub::ModelConfig target, hub::ReadModelConfig(target_folder));
  if (drafter.dims.vocabulary != target.dims.vocabulary) {
    return absl::InvalidArgumentError(absl::StrCat(
        drafter_folder, ": this drafter has a vocabulary of ", drafter.dims.vocabulary,
        ", but the target's has ", target.dims.vocabulary, "; use a drafter of the same family"));
  }
  return CheckTokenizers(drafter_folder, target_folder);
}

absl::StatusOr<CheckedDrafter> CheckAutoregressive(const std::string& drafter_folder,
                                                   const std::string& target_folder,
                                                   const nn::EngineOptions& options) {
  RETURN_IF_ERROR(CheckAutoregressivePair(drafter_folder, target_folder));
  nn::PackingPlan plan;  // Never run: no matrix is packed.
  ASSIGN_OR_RETURN(const nn::CausalModel model, nn::LoadCausalModel(drafter_folder, options, plan));
  const hub::ModelConfig& config = model.decoder->config();
  return CheckedDrafter{config, model.Cost(), config.dims};
}

absl::StatusOr<std::unique_ptr<AutoregressiveModel>> AutoregressiveModel::Load(
    const std::string& drafter_folder, const std::string& target_folder,
    const nn::EngineOptions& options) {
  RETURN_IF_ERROR(CheckAutoregressivePair(drafter_folder, target_folder));
  nn::EngineOptions own = options;
  own.max_sequences = 2 * options.max_sequences;  // Spans: new context, and a tree.
  nn::PackingPlan plan;
  ASSIGN_OR_RETURN(nn::CausalModel loaded,
                   nn::LoadCausalModel(drafter_folder, own, plan, kTreeRows));
  RETURN_IF_ERROR(plan.Run(drafter_folder, own));
  auto model = std::unique_ptr<AutoregressiveModel>(new AutoregressiveModel(std::move(loaded)));
  const std::vector<int> sizes = nn::RowBuckets(model->max_rows());
  ASSIGN_OR_RETURN(model->step_, nn::Step::Create(*model->model_.decoder, model->model_.vocabulary,
                                                  {sizes, sizes, /*gathers=*/true}));
  RETURN_IF_ERROR(model->step_->SetFeatureLayers({}, own.show_progress));
  return model;
}

absl::Status AutoregressiveModel::Forward(const NodeRows& rows) {
  RETURN_IF_ERROR(step_->Forward({.batch = rows.batch}));
  return device().Finish();  // The next forward overwrites the inputs.
}

absl::StatusOr<std::vector<Marginals>> AutoregressiveModel::Predict(
    const NodeRows& rows, absl::Span<const int> wanted,
    absl::Span<const kernels::ChoiceRule> coupling, int candidates) {
  RETURN_IF_ERROR(step_->Forward({.batch = rows.batch, .wanted = wanted, .rules = coupling}));
  if (wanted.empty()) {
    RETURN_IF_ERROR(device().Finish());
    return std::vector<Marginals>();
  }
  RETURN_IF_ERROR(step_->Head());
  StopWatch watch;
  auto marginals = ranking_.Rank(*step_, /*positions=*/1, candidates);
  candidates_time_ = device().on_host() ? watch.Lap() : absl::ZeroDuration();
  device().Rest();
  return marginals;
}

}  // namespace bastion::drafter
