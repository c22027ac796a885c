// The verifier: layout, forward, accept, commit. The service wraps it in gRPC, the bench embeds it.
//
// Not thread-safe, but for features(): one call at a time.
#ifndef BASTION_VERIFIER_SERVICE_SESSION_VERIFIER_ENGINE_H_
#define BASTION_VERIFIER_SERVICE_SESSION_VERIFIER_ENGINE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/tree/stage_data.h"
#include "verifier_service/commit/feature_store.h"
#include "verifier_service/session/sequence_table.h"
#include "verifier_service/verify/forward.h"

namespace bastion::verifier {

struct VerifierOptions {
  std::string target_folder;
  nn::EngineOptions engine;
  int max_sequences = 64;
  int max_rows = 512;       // Of one verify forward.
  int prefill_chunk = 256;  // Rows of one prefill forward.
  int64_t feature_bytes = int64_t{1} << 30;
};

class VerifierEngine {
 public:
  // Loads the target and measures the device. Errors: see TargetModel::Load.
  static absl::StatusOr<std::unique_ptr<VerifierEngine>> Create(const VerifierOptions& options);

  [[nodiscard]] const TargetInfo& info() const { return info_; }

  // Which layers' outputs are kept as features, for sequences opened from now on.
  // INVALID_ARGUMENT for a layer that the target lacks; FAILED_PRECONDITION while sequences live
  // whose features are others.
  [[nodiscard]] absl::Status SetFeatureLayers(const std::vector<int>& layers);

  // Contracts: orchestrator/cycle/stages.h.
  [[nodiscard]] absl::Status Open(SequenceId sequence, const SamplingParams& sampling);
  [[nodiscard]] absl::StatusOr<TimingTrace> Prefill(const PrefillItem& item);
  [[nodiscard]] absl::StatusOr<VerifyResult> Verify(const Forest& forest);
  void Close(SequenceId sequence);

  // Thread-safe.
  [[nodiscard]] FeatureStore& features() { return features_; }
  [[nodiscard]] int live_sequences() const { return sequences_.size(); }
  [[nodiscard]] int free_kv_tokens();

 private:
  // One item of a forest that takes part in the forward.
  struct Entry {
    const VerifyItem* item = nullptr;
    Sequence* sequence = nullptr;
    VerifyOutcome* outcome = nullptr;
    int first_row = 0;
  };

  VerifierEngine(const VerifierOptions& options, std::unique_ptr<TargetModel> model);

  [[nodiscard]] absl::Status CheckRoom(const Sequence& sequence, Position cached, int last_depth);
  [[nodiscard]] absl::Status PrefillChunk(Sequence& sequence, std::vector<TokenId> tokens);
  [[nodiscard]] absl::StatusOr<Sequence*> Admit(const VerifyItem& item);
  [[nodiscard]] nn::RowBatch LayOut(const Forest& forest, std::vector<Entry>& entries,
                                    VerifyResult& result);
  [[nodiscard]] std::vector<TokenId> ChooseTokens(const std::vector<Entry>& entries,
                                                  const nn::RowBatch& batch);
  void Accept(std::vector<Entry>& entries, const std::vector<TokenId>& choices);
  void Commit(std::vector<Entry>& entries);
  void ExportFeatures(const std::vector<Entry>& entries);

  VerifierOptions options_;
  std::unique_ptr<TargetModel> model_;
  SequenceTable sequences_;
  FeatureStore features_;
  std::vector<int> feature_layers_;
  TargetInfo info_;
};

}  // namespace bastion::verifier

#endif  // BASTION_VERIFIER_SERVICE_SESSION_VERIFIER_ENGINE_H_
