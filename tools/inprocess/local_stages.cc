#include "tools/inprocess/local_stages.h"

#include "common/base/status.h"
#include "common/prior/transition_file.h"
#include "drafter_service/replay/acceptance_profile.h"
#include "drafter_service/replay/replayed_engine.h"

namespace bastion {

absl::StatusOr<DraftResult> AbsentDrafter::Expand(absl::Span<const Frontier> frontiers) {
  DraftResult result;
  for (const Frontier& frontier : frontiers) {
    result.drafts.push_back({std::vector<Marginals>(frontier.paths.size())});
  }
  return result;
}

absl::Status LocalStages::LoadDrafter(const LocalOptions& options,
                                      const nn::EngineOptions& engine) {
  if (options.drafter_folder.empty()) {
    drafter_ = std::make_unique<AbsentDrafter>();
    return absl::OkStatus();
  }
  drafter::DrafterOptions drafter;
  drafter.drafter_folder = options.drafter_folder;
  drafter.target_folder = options.target_folder;
  drafter.engine = engine;
  ASSIGN_OR_RETURN(drafter.engine.device, nn::OpenAnother(device_, options.device));
  if (!options.drafter_weights.empty()) {
    ASSIGN_OR_RETURN(drafter.engine.formats,
                     nn::ParseDraftFormats({.weights = options.drafter_weights}, on_gpu()));
  }
  drafter.max_sequences = options.memory.max_sequences;
  drafter.reuse_prefixes = options.memory.reuse_prefixes;
  drafter.draft_vocabulary = options.draft_vocabulary;
  features_ = std::make_unique<LocalFeatures>(verifier_engine_.get());
  ASSIGN_OR_RETURN(drafter_engine_, drafter::DrafterEngine::Create(drafter, features_.get()));
  if (const DeviceReader* const reader = drafter_engine_->device_reader(); reader != nullptr) {
    RETURN_IF_ERROR(features_->ReadRing(*reader));
  }
  RETURN_IF_ERROR(verifier_engine_->SetFeatureLayers(drafter_engine_->feature_layers()));
  RETURN_IF_ERROR(WrapDrafter(options));
  drafter_ = std::make_unique<LocalDrafter>(drafter_engine_.get());
  return absl::OkStatus();
}

absl::Status LocalStages::WrapDrafter(const LocalOptions& options) {
  if (!options.replayed_profile.empty()) {
    ASSIGN_OR_RETURN(drafter::AcceptanceProfile profile,
                     drafter::AcceptanceProfile::Read(options.replayed_profile));
    known_texts_ = std::make_unique<drafter::KnownTexts>();
    drafter_engine_ = std::make_unique<drafter::ReplayedEngine>(
        std::move(drafter_engine_), std::move(profile), known_texts_.get());
  }
  if (options.records_acceptance) {
    ASSIGN_OR_RETURN(auto recorder,
                     drafter::AcceptanceRecorder::Create(std::move(drafter_engine_)));
    recorder_ = recorder.get();
    drafter_engine_ = std::move(recorder);
  }
  if (options.counts_accuracy) {
    auto counter = std::make_unique<drafter::BlockAccuracyCounter>(std::move(drafter_engine_));
    counter_ = counter.get();
    drafter_engine_ = std::move(counter);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<LocalStages>> LocalStages::Create(const LocalOptions& options) {
  auto stages = std::unique_ptr<LocalStages>(new LocalStages());
  ASSIGN_OR_RETURN(stages->device_, nn::OpenLocalDevice(options.device));
  nn::EngineOptions engine;
  ASSIGN_OR_RETURN(engine.formats, nn::ParseFormats(options.formats));
  engine.device = stages->device_.device;
  engine.show_progress = options.show_progress;
  engine.kv_tokens = options.memory.kv_tokens;

  verifier::VerifierOptions verifier;
  verifier.target_folder = options.target_folder;
  verifier.engine = engine;
  verifier.engine.streaming = options.memory.streaming;
  verifier.max_rows = options.memory.max_rows;
  verifier.feature_bytes = options.memory.feature_bytes;
  if (!options.drafter_folder.empty()) {
    verifier.engine.share_bytes = options.memory.gpu_feature_bytes;
  }
  verifier.max_sequences = options.memory.max_sequences;
  verifier.reuse_prefixes = options.memory.reuse_prefixes;
  ASSIGN_OR_RETURN(stages->verifier_engine_, verifier::VerifierEngine::Create(verifier));

  RETURN_IF_ERROR(stages->LoadDrafter(options, engine));
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
