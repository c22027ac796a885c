// The two stages in process: engines behind the interfaces of common/stages/stages.h, on one
// team of threads. Thread-compatible.
#ifndef BASTION_CLIENT_INPROCESS_LOCAL_STAGES_H_
#define BASTION_CLIENT_INPROCESS_LOCAL_STAGES_H_

#include <memory>
#include <string>

#include "common/nn/local_device.h"
#include "common/stages/stages.h"
#include "drafter_service/engine/drafter_engine.h"
#include "orchestrator/prior/transition_gains.h"
#include "verifier_service/engine/verifier_engine.h"

namespace bastion {

class LocalVerifier final : public Verifier {
 public:
  explicit LocalVerifier(verifier::VerifierEngine* engine) : engine_(engine) {}
  absl::StatusOr<TargetInfo> Info() override { return engine_->info(); }
  absl::Status Open(SequenceId sequence, const SamplingParams& sampling) override {
    return engine_->Open(sequence, sampling);
  }
  absl::StatusOr<TimingTrace> Prefill(const PrefillItem& item) override {
    return engine_->Prefill(item);
  }
  absl::StatusOr<VerifyResult> Verify(const Forest& forest) override {
    return engine_->Verify(forest);
  }
  void Close(SequenceId sequence) override { engine_->Close(sequence); }

 private:
  verifier::VerifierEngine* const engine_;
};

class LocalDrafter final : public Drafter {
 public:
  explicit LocalDrafter(drafter::DrafterEngine* engine) : engine_(engine) {}
  absl::StatusOr<DrafterInfo> Info() override { return engine_->info(); }
  absl::StatusOr<std::vector<Draft>> Expand(absl::Span<const Frontier> frontiers) override {
    return engine_->Expand(frontiers);
  }
  void Close(SequenceId sequence) override { engine_->Close(sequence); }

 private:
  drafter::DrafterEngine* const engine_;
};

struct LocalOptions {
  std::string target_folder;
  std::string drafter_folder;
  std::string dtype = "bf16";   // Of the target.
  std::string drafter_dtype;    // Empty: as the target.
  std::string device = "auto";  // "cpu", "cuda" or "auto", for both.
  std::string backend = "cpu";  // "cpu" or "torch", for both.
  int gpu = 0;
  std::string gemm_table;  // Of that GPU; empty: found out at every start.
  int threads = 0;
  int max_sequences = 64;
  bool show_progress = false;  // While weights are loaded.
  std::string prior;           // Transition table or its folder; empty: the drafter's folder.
};

// Both engines and what they stand on, in the order in which they must go.
class LocalStages {
 public:
  // Errors name the folder and what is wrong with it.
  static absl::StatusOr<std::unique_ptr<LocalStages>> Create(const LocalOptions& options);

  [[nodiscard]] Verifier& verifier() { return *verifier_; }
  [[nodiscard]] Drafter& drafter() { return *drafter_; }
  [[nodiscard]] bool on_gpu() const { return on_gpu_; }
  // The transition table beside the drafter; null when there is none.
  [[nodiscard]] const TransitionGains* table() const { return table_.get(); }
  [[nodiscard]] verifier::VerifierEngine& verifier_engine() { return *verifier_engine_; }
  [[nodiscard]] drafter::DrafterEngine& drafter_engine() { return *drafter_engine_; }
  [[nodiscard]] const nn::Device& device() const { return device_.device; }

 private:
  LocalStages() = default;

  nn::LocalDevice device_;
  bool on_gpu_ = false;
  std::unique_ptr<verifier::VerifierEngine> verifier_engine_;
  std::unique_ptr<drafter::DrafterEngine> drafter_engine_;
  std::unique_ptr<LocalVerifier> verifier_;
  std::unique_ptr<LocalDrafter> drafter_;
  std::unique_ptr<const TransitionGains> table_;
};

}  // namespace bastion

#endif  // BASTION_CLIENT_INPROCESS_LOCAL_STAGES_H_
