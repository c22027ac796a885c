// LocalStages: both stages (draft and verify) in this process. The engines implement the interfaces
// of common/stages/stages.h and share one thread pool. Thread-compatible.
#ifndef BASTION_TOOLS_INPROCESS_LOCAL_STAGES_H_
#define BASTION_TOOLS_INPROCESS_LOCAL_STAGES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/stages/stages.h"
#include "drafter_service/engine/drafter_engine.h"
#include "drafter_service/replay/acceptance_recorder.h"
#include "drafter_service/replay/block_accuracy.h"
#include "drafter_service/replay/known_texts.h"
#include "engine/program/format_names.h"
#include "engine/program/local_device.h"
#include "orchestrator/prior/transition_gains.h"
#include "tools/inprocess/local_features.h"
#include "verifier_service/engine/verifier_engine.h"

namespace bastion {

// A Verifier that calls an engine. Does not own it.
class LocalVerifier final : public Verifier {
 public:
  explicit LocalVerifier(verifier::VerifierEngine* engine) : engine_(engine) {}
  absl::StatusOr<TargetInfo> Info() override { return engine_->info(); }
  absl::Status Open(SequenceId sequence, const SamplingParams& sampling) override {
    return engine_->Open(sequence, sampling);
  }
  absl::StatusOr<int> ReusePrefix(const PrefixItem& item) override {
    return engine_->ReusePrefix(item);
  }
  absl::StatusOr<VerifyResult> Verify(const Forest& forest,
                                      absl::Span<const PrefillItem> prompts) override {
    return engine_->Verify(forest, prompts);
  }
  void Close(SequenceId sequence) override { engine_->Close(sequence); }

 private:
  verifier::VerifierEngine* const engine_;
};

// A Drafter that calls an engine. Does not own it.
class LocalDrafter final : public Drafter {
 public:
  explicit LocalDrafter(drafter::DrafterEngine* engine) : engine_(engine) {}
  absl::StatusOr<DrafterInfo> Info() override { return engine_->info(); }
  absl::StatusOr<DraftResult> Expand(absl::Span<const Frontier> frontiers) override {
    ASSIGN_OR_RETURN(std::vector<Draft> drafts, engine_->Expand(frontiers));
    return DraftResult{std::move(drafts), engine_->last_trace()};
  }
  void Close(SequenceId sequence) override { engine_->Close(sequence); }

 private:
  drafter::DrafterEngine* const engine_;
};

// The drafter of a session without one: it has no prediction, so every cycle decodes plainly.
class AbsentDrafter final : public Drafter {
 public:
  absl::StatusOr<DrafterInfo> Info() override {
    return absl::FailedPreconditionError("there is no drafter; pass --drafter");
  }
  absl::StatusOr<DraftResult> Expand(absl::Span<const Frontier> frontiers) override;
  void Close(SequenceId /*sequence*/) override {}
};

// The limits of the models' memory. kv_tokens is that of each model's cache.
struct LocalMemory {
  int max_sequences = 64;
  int kv_tokens = nn::EngineOptions().kv_tokens;
  int max_rows = verifier::VerifierOptions().max_rows;  // Rows of one forward of the target.
  int64_t feature_bytes = verifier::VerifierOptions().feature_bytes;
  int64_t gpu_feature_bytes = int64_t{64} << 20;  // The ring of features that a GPU keeps.
  bool reuse_prefixes = false;         // Off, so that measurements of equal prompts are comparable.
  nn::StreamingWindow streaming = {};  // The target's attention.
};

struct LocalOptions {
  std::string target_folder;
  std::string drafter_folder;                    // Empty: no drafter.
  nn::FormatNames formats = {};                  // The target's.
  std::string drafter_weights;                   // Format, or "auto". Empty: as the target's.
  int draft_vocabulary = 0;                      // As in DrafterOptions.
  nn::DeviceChoice device = {.device = "auto"};  // For both models.
  LocalMemory memory = {};
  bool show_progress = false;       // Show a progress bar while loading weights.
  std::string prior;                // Transition table or its folder. Empty: the drafter's folder.
  std::string replayed_profile;     // AcceptanceProfile for a ReplayedEngine. Empty: none.
  bool records_acceptance = false;  // Draft through an AcceptanceRecorder.
  bool counts_accuracy = false;     // Draft through a BlockAccuracyCounter.
};

// Owns both engines and the objects that they use. Members are destroyed in reverse order, so each
// member comes after the objects that it uses.
class LocalStages {
 public:
  // Loads both models. Errors name the folder and the problem.
  static absl::StatusOr<std::unique_ptr<LocalStages>> Create(const LocalOptions& options);

  [[nodiscard]] Verifier& verifier() { return *verifier_; }
  [[nodiscard]] Drafter& drafter() { return *drafter_; }
  [[nodiscard]] bool on_gpu() const { return !device_.device->on_host(); }
  // The transition table of `LocalOptions::prior` or the drafter's folder. Null if there is none.
  [[nodiscard]] const TransitionGains* table() const { return table_.get(); }
  [[nodiscard]] verifier::VerifierEngine& verifier_engine() { return *verifier_engine_; }
  // REQUIRES: there is a drafter.
  [[nodiscard]] drafter::DrafterEngine& drafter_engine() { return *drafter_engine_; }
  [[nodiscard]] const std::shared_ptr<nn::Device>& device() const { return device_.device; }
  // The texts whose acceptance is replayed. Null: the drafts are the drafter's own.
  [[nodiscard]] drafter::KnownTexts* known_texts() { return known_texts_.get(); }
  // Null unless LocalOptions::records_acceptance.
  [[nodiscard]] const drafter::AcceptanceProfile* recorded_acceptance() const {
    return recorder_ == nullptr ? nullptr : &recorder_->profile();
  }
  // Null unless LocalOptions::counts_accuracy.
  [[nodiscard]] const drafter::BlockAccuracy* accuracy() const {
    return counter_ == nullptr ? nullptr : &counter_->accuracy();
  }

 private:
  LocalStages() = default;
  // Loads the drafter, or an AbsentDrafter if `options` names none. REQUIRES: verifier_engine_.
  [[nodiscard]] absl::Status LoadDrafter(const LocalOptions& options,
                                         const nn::EngineOptions& engine);
  // Replays, records or counts acceptance if `options` say so.
  [[nodiscard]] absl::Status WrapDrafter(const LocalOptions& options);

  nn::LocalDevice device_;
  std::unique_ptr<verifier::VerifierEngine> verifier_engine_;
  std::unique_ptr<LocalFeatures> features_;
  std::unique_ptr<drafter::KnownTexts> known_texts_;
  std::unique_ptr<drafter::DrafterEngine> drafter_engine_;
  // What drafter_engine_ is or wraps, or null.
  drafter::AcceptanceRecorder* recorder_ = nullptr;
  drafter::BlockAccuracyCounter* counter_ = nullptr;
  std::unique_ptr<LocalVerifier> verifier_;
  std::unique_ptr<Drafter> drafter_;
  std::unique_ptr<const TransitionGains> table_;
};

}  // namespace bastion

#endif  // BASTION_TOOLS_INPROCESS_LOCAL_STAGES_H_
