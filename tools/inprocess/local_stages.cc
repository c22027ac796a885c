#include "tools/inprocess/local_stages.h"

#include "common/base/status.h"
#include "common/prior/transition_file.h"
#include "drafter_service/draft/draft_model_loader.h"
#include "verifier_service/model/target_loader.h"

namespace bastion {

absl::StatusOr<DraftResult> AbsentDrafter::Expand(absl::Span<const Frontier> frontiers) {
  DraftResult result;
  for (const Frontier& frontier : frontiers) {
    result.drafts.push_back({std::vector<Marginals>(frontier.paths.size())});
  }
  return result;
}

absl::Status LocalStages::LoadDrafter(const LocalOptions& options, const nn::EngineOptions& engine,
                                      nn::DeviceKind kind) {
  if (options.drafter_folder.empty()) {
    drafter_ = std::make_unique<AbsentDrafter>();
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const nn::DeviceKind device,
                   drafter::ChooseDraftDevice(kind, options.drafter_folder));
  ASSIGN_OR_RETURN(const auto draft, drafter::ChooseDraftModelLoader(device, options.gpu));
  drafter::DrafterOptions drafter;
  drafter.drafter_folder = options.drafter_folder;
  drafter.target_folder = options.target_folder;
  drafter.engine = engine;
  drafter.load_model = draft.load;
  if (!options.drafter_dtype.empty()) {
    ASSIGN_OR_RETURN(drafter.engine.dtype,
                     nn::ParseDraftDType(options.drafter_dtype, draft.on_gpu));
  }
  drafter.max_sequences = options.memory.max_sequences;
  drafter.reuse_prefixes = options.memory.reuse_prefixes;
  ASSIGN_OR_RETURN(drafter_engine_,
                   drafter::DrafterEngine::Create(drafter, &verifier_engine_->features()));
  RETURN_IF_ERROR(verifier_engine_->SetFeatureLayers(drafter_engine_->feature_layers()));
  drafter_ = std::make_unique<LocalDrafter>(drafter_engine_.get());
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<LocalStages>> LocalStages::Create(const LocalOptions& options) {
  auto stages = std::unique_ptr<LocalStages>(new LocalStages());
  ASSIGN_OR_RETURN(stages->device_, nn::OpenLocalDevice(options.threads, options.backend));
  nn::EngineOptions engine;
  ASSIGN_OR_RETURN(engine.dtype, nn::ParseDType(options.dtype));
  engine.device = stages->device_.device;
  engine.gpu = options.gpu;
  engine.gemm_table = options.gemm_table;
  engine.show_progress = options.show_progress;
  engine.kv_tokens = options.memory.kv_tokens;
  ASSIGN_OR_RETURN(const nn::DeviceKind kind, nn::ParseDeviceKind(options.device, options.backend));
  ASSIGN_OR_RETURN(const auto target, verifier::ChooseTargetLoader(kind, options.gpu));
  stages->on_gpu_ = target.on_gpu;

  verifier::VerifierOptions verifier;
  verifier.target_folder = options.target_folder;
  verifier.engine = engine;
  verifier.engine.streaming = options.memory.streaming;
  verifier.load_target = target.load;
  verifier.max_rows = options.memory.max_rows;
  verifier.feature_bytes = options.memory.feature_bytes;
  verifier.max_sequences = options.memory.max_sequences;
  verifier.reuse_prefixes = options.memory.reuse_prefixes;
  ASSIGN_OR_RETURN(stages->verifier_engine_, verifier::VerifierEngine::Create(verifier));

  RETURN_IF_ERROR(stages->LoadDrafter(options, engine, kind));
  stages->verifier_ = std::make_unique<LocalVerifier>(stages->verifier_engine_.get());
  const int vocabulary = stages->verifier_engine_->info().dims.vocabulary;
  if (options.prior.empty() && options.drafter_folder.empty()) return stages;
  ASSIGN_OR_RETURN(const auto table,
                   options.prior.empty()
                       ? hub::FindTransitionTable(options.drafter_folder, vocabulary)
                       : hub::RequireTransitionTable(options.prior, vocabulary));
  if (table != nullptr) stages->table_ = std::make_unique<const TransitionGains>(*table);
  return stages;
}

}  // namespace bastion
