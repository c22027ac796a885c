#include "tools/doctor/checkpoint_check.h"

#include <filesystem>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/hub/checkpoint.h"
#include "common/prior/transition_file.h"
#include "drafter_service/draft/autoregressive.h"
#include "drafter_service/draft/draft_model.h"
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

int64_t TableBytes(const ModelDims& dims, DType dtype) {
  return int64_t{dims.vocabulary} * dims.hidden *
         static_cast<int64_t>(BytesPerElement(nn::StoredType(dtype)));
}

}  // namespace

// As in verifier_service/model/forward.cc. The plans below are never run: no matrix is packed.
absl::StatusOr<CheckedModel> CheckTarget(const std::string& folder,
                                         const nn::EngineOptions& options) {
  nn::PackingPlan plan;
  ASSIGN_OR_RETURN(const nn::CausalModel loaded,
                   nn::LoadCausalModel(folder, ForCheck(options), plan));
  CheckedModel model;
  model.config = loaded.decoder->config();
  model.cost = loaded.Cost();
  model.table_bytes = TableBytes(model.config.dims, options.dtype);
  return model;
}

// As in drafter_service/draft/dflash.cc, if it is a block drafter.
absl::StatusOr<CheckedModel> CheckDrafter(const std::string& drafter_folder,
                                          const std::string& target_folder,
                                          const nn::EngineOptions& options) {
  ASSIGN_OR_RETURN(const bool block, drafter::IsBlockDrafter(drafter_folder));
  if (!block) {
    RETURN_IF_ERROR(drafter::CheckAutoregressivePair(drafter_folder, target_folder));
    return CheckTarget(drafter_folder, options);
  }
  ASSIGN_OR_RETURN(const drafter::DraftPair pair,
                   drafter::ReadDraftPair(drafter_folder, target_folder));
  CheckedModel model;
  model.config = pair.drafter;
  ASSIGN_OR_RETURN(const auto checkpoint, hub::Checkpoint::Open(drafter_folder));
  ASSIGN_OR_RETURN(const auto target, hub::Checkpoint::Open(target_folder));
  nn::PackingPlan plan;
  const nn::WeightLoader loader(checkpoint, options.dtype, plan);
  ASSIGN_OR_RETURN(const auto decoder, nn::Decoder::Load(loader, model.config, ForCheck(options)));
  const nn::WeightLoader target_loader(target, options.dtype, plan);
  ASSIGN_OR_RETURN(const auto vocabulary, nn::Vocabulary::Load(target_loader, pair.target));
  const nn::WeightLoader unrounded(checkpoint, nn::StoredType(options.dtype), plan);
  const int width = model.config.dims.hidden;
  const int features = static_cast<int>(model.config.dflash.target_layer_ids.size()) * width;
  ASSIGN_OR_RETURN(const nn::Matrix fuse, unrounded.Stacked({"fc.weight"}, {width}, features));
  RETURN_IF_ERROR(loader.Vector("hidden_norm.weight", width).status());
  RETURN_IF_ERROR(
      hub::CheckAllRead(*checkpoint, model.config.names, model.config.tie_word_embeddings));
  model.cost = decoder->Cost();
  model.cost.Add(vocabulary.head());
  model.cost.Add(fuse.packed);
  model.table_bytes = TableBytes(pair.target.dims, options.dtype);
  return model;
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
