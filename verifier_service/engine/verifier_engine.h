// The verifier engine: layout, forward, accept, commit. The service exposes it over gRPC; the bench
// embeds it.
//
// Not thread-safe except where stated: one call at a time.
#ifndef BASTION_VERIFIER_SERVICE_ENGINE_VERIFIER_ENGINE_H_
#define BASTION_VERIFIER_SERVICE_ENGINE_VERIFIER_ENGINE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/stages/stage_data.h"
#include "engine/model/device.h"
#include "verifier_service/engine/audit_options.h"
#include "verifier_service/features/feature_store.h"
#include "verifier_service/model/target.h"

namespace bastion::verifier {

struct VerifierOptions {
  std::string target_folder;
  nn::EngineOptions engine;
  int max_sequences = 64;
  int max_rows = 512;  // Maximum number of rows in one forward.
  // Limit for the features of all sequences and cached prefixes together.
  int64_t feature_bytes = int64_t{1} << 30;
  bool reuse_prefixes = true;  // If not, or with engine.streaming, ReusePrefix always returns 0.
  AuditOptions audit;
  TargetLoader load_target = nullptr;  // Null: LoadTarget.
};

class VerifierEngine {
 public:
  // Loads the target and measures the device. Returns the loader's errors.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<VerifierEngine>> Create(
      const VerifierOptions& options);
  virtual ~VerifierEngine() = default;

  [[nodiscard]] virtual const TargetInfo& info() const = 0;

  // Sets the layers whose outputs become the features of sequences that are opened from now on. If
  // the layers change, open sequences lose their features. INVALID_ARGUMENT for a layer that the
  // target does not have or that occurs twice.
  [[nodiscard]] virtual absl::Status SetFeatureLayers(const std::vector<int>& layers) = 0;

  // Contracts: Verifier in common/stages/stages.h.
  [[nodiscard]] virtual absl::Status Open(SequenceId sequence, const SamplingParams& sampling) = 0;
  [[nodiscard]] virtual absl::StatusOr<int> ReusePrefix(const PrefixItem& item) = 0;
  [[nodiscard]] virtual absl::StatusOr<VerifyResult> Verify(
      const Forest& forest, absl::Span<const PrefillItem> prompts) = 0;
  virtual void Close(SequenceId sequence) = 0;
  [[nodiscard]] absl::StatusOr<TimingTrace> Prefill(const PrefillItem& item);

  // The bytes read and the multiply-adds of one verify forward.
  [[nodiscard]] virtual nn::ForwardCost cost() const = 0;
  // Thread-safe.
  [[nodiscard]] virtual FeatureStore& features() = 0;
  // The ring from which drafters on this GPU can read features, or null. Thread-safe.
  [[nodiscard]] virtual std::shared_ptr<const wire::DeviceRingWriter> feature_ring() const {
    return nullptr;
  }
  [[nodiscard]] virtual int live_sequences() const = 0;
  [[nodiscard]] virtual int free_kv_tokens() const = 0;
};

}  // namespace bastion::verifier

#endif  // BASTION_VERIFIER_SERVICE_ENGINE_VERIFIER_ENGINE_H_
