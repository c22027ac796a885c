#include "drafter_service/draft/autoregressive.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/hub/json_file.h"
#include "drafter_service/draft/draft_model.h"
#include "engine/model/causal_model.h"

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

absl::StatusOr<std::unique_ptr<AutoregressiveModel>> AutoregressiveModel::Load(
    const std::string& drafter_folder, const std::string& target_folder,
    const nn::EngineOptions& options) {
  RETURN_IF_ERROR(CheckAutoregressivePair(drafter_folder, target_folder));
  nn::PackingPlan plan;
  ASSIGN_OR_RETURN(nn::CausalModel model, nn::LoadCausalModel(drafter_folder, options, plan));
  RETURN_IF_ERROR(plan.Run(drafter_folder, options));
  return std::unique_ptr<AutoregressiveModel>(new AutoregressiveModel(std::move(model)));
}

void AutoregressiveModel::Forward(const nn::RowBatch& batch) {
  hidden_data_ = hidden_.Reserve(batch.rows(), config().dims.hidden);  // [R, C]
  model_.vocabulary.Embed(model_.decoder->device(), batch.tokens(), hidden_data_);
  model_.decoder->Forward(batch, hidden_data_);
}

std::vector<Marginals> AutoregressiveModel::Predict(absl::Span<const int> rows,
                                                    absl::Span<const kernels::ChoiceRule> coupling,
                                                    int candidates) {
  const auto count = static_cast<int>(rows.size());
  const int width = config().dims.hidden;
  const nn::Device& device = model_.decoder->device();
  candidates = std::min(candidates, model_.vocabulary.size());
  float* wanted = wanted_.Reserve(count, width);                     // [n, C]
  float* normed = normed_.Reserve(count, width);                     // [n, C]
  float* logits = logits_.Reserve(count, model_.vocabulary.size());  // [n, V]
  for (int i = 0; i < count; ++i) {
    std::copy_n(hidden_data_ + int64_t{rows[i]} * width, width, wanted + int64_t{i} * width);
  }
  model_.decoder->FinalNorm(wanted, count, normed);
  model_.vocabulary.Logits(device, normed, count, logits);
  StopWatch watch;
  std::vector<TokenId> tokens(static_cast<size_t>(count) * candidates);
  std::vector<float> log_probs(tokens.size());
  device.backend->top_k({logits, coupling.data(), tokens.data(), log_probs.data(), count,
                         model_.vocabulary.size(), candidates},
                        *device.pool);
  candidates_time_ = watch.Lap();
  device.pool->Rest();
  return MarginalsOf({tokens.data(), log_probs.data(), /*positions=*/1, candidates}, count);
}

}  // namespace bastion::drafter
