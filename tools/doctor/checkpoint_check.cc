#include "tools/doctor/checkpoint_check.h"

#include <filesystem>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/prior/transition_file.h"
#include "drafter_service/engine/drafter_kinds.h"
#include "engine/model/causal_model.h"
#include "engine/model/packing_plan.h"
#include "orchestrator/intake/served_model.h"

namespace bastion::doctor {
namespace {

// The options for a check. The KV cache is as small as possible.
nn::EngineOptions ForCheck(nn::EngineOptions options) {
  options.kv_tokens = kernels::kPageTokens;
  return options;
}

int64_t TableBytes(const ModelDims& dims, const nn::Formats& formats) {
  return static_cast<int64_t>(Bytes(formats.activations, int64_t{dims.vocabulary} * dims.hidden));
}

}  // namespace

absl::StatusOr<CheckedModel> CheckTarget(const std::string& folder,
                                         const nn::EngineOptions& options) {
  nn::PackingPlan plan;  // Never run: no matrix is packed.
  ASSIGN_OR_RETURN(const nn::CausalModel loaded,
                   nn::LoadCausalModel(folder, ForCheck(options), plan));
  CheckedModel model;
  model.config = loaded.decoder->config();
  model.cost = loaded.Cost();
  model.table_bytes = TableBytes(model.config.dims, options.formats);
  return model;
}

absl::StatusOr<CheckedModel> CheckDrafter(const std::string& drafter_folder,
                                          const std::string& target_folder,
                                          const nn::EngineOptions& options) {
  ASSIGN_OR_RETURN(const drafter::DrafterKind* const kind,
                   drafter::FindDrafterKind(drafter_folder));
  ASSIGN_OR_RETURN(const drafter::CheckedDrafter checked,
                   kind->check(drafter_folder, target_folder, ForCheck(options)));
  return CheckedModel{
      checked.config, checked.cost,       TableBytes(checked.embedding, options.formats),
      checked.rows,   checked.logit_rows, checked.feature_width};
}

absl::StatusOr<int64_t> CheckServing(const std::string& target_folder,
                                     const std::string& drafter_folder) {
  ASSIGN_OR_RETURN(const auto model, ServedModel::Load(target_folder));
  if (!model->chat_problem.empty()) return absl::InvalidArgumentError(model->chat_problem);
  if (drafter_folder.empty()) return 0;
  ASSIGN_OR_RETURN(const auto table,
                   hub::FindTransitionTable(drafter_folder, model->config.dims.vocabulary));
  if (table == nullptr) return 0;
  const std::filesystem::path file =
      std::filesystem::path(drafter_folder) / hub::kTransitionFileName;
  std::error_code error;
  const auto bytes = std::filesystem::file_size(file, error);
  return error ? 0 : static_cast<int64_t>(bytes);
}

}  // namespace bastion::doctor
