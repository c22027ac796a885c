// The drafter: keeps each sequence's context cache up to date with the target's features, then drafts.
// The service wraps it in gRPC, the bench embeds it.
//
// Not thread-safe: one call at a time.
#ifndef BASTION_DRAFTER_SERVICE_SESSION_DRAFTER_ENGINE_H_
#define BASTION_DRAFTER_SERVICE_SESSION_DRAFTER_ENGINE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/container/node_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/tree/features.h"
#include "common/tree/stage_data.h"
#include "drafter_service/draft/dflash.h"

namespace bastion::drafter {

struct DrafterOptions {
  std::string drafter_folder;
  std::string target_folder;  // For the embedding and the LM head.
  nn::EngineOptions engine;
  int max_sequences = 64;
  absl::Duration feature_patience = absl::Milliseconds(200);
};

class DrafterEngine {
 public:
  // `features` must outlive the engine. Errors: see DflashModel::Load.
  static absl::StatusOr<std::unique_ptr<DrafterEngine>> Create(const DrafterOptions& options,
                                                               FeatureSource* features);

  [[nodiscard]] const DrafterInfo& info() const { return info_; }
  // The target layers whose features this drafter reads.
  [[nodiscard]] const std::vector<int>& feature_layers() const {
    return model_->config().dflash.target_layer_ids;
  }

  // Contract: orchestrator/cycle/stages.h. A sequence not seen before is taken up from its features,
  // whenever it began. A frontier whose features cannot be had, or with a path other than the root,
  // gets empty marginals; a stale epoch FAILED_PRECONDITION for the whole call.
  [[nodiscard]] absl::StatusOr<std::vector<Draft>> Expand(absl::Span<const Frontier> frontiers);
  void Close(SequenceId sequence);

  [[nodiscard]] int live_sequences() const { return static_cast<int>(sequences_.size()); }

 private:
  struct Sequence {
    SequenceId id;
    Position context = 0;  // Tokens whose features are in the cache.
    nn::PageTable table;
  };

  DrafterEngine(const DrafterOptions& options, FeatureSource* features,
                std::unique_ptr<DflashModel> model);

  [[nodiscard]] absl::StatusOr<Sequence*> FindOrOpen(SequenceId id);
  // Brings the sequence's context to frontier.committed tokens.
  [[nodiscard]] absl::Status CatchUp(const Frontier& frontier, Sequence& sequence);

  DrafterOptions options_;
  FeatureSource* features_;
  std::unique_ptr<DflashModel> model_;
  DrafterInfo info_;
  absl::node_hash_map<uint64_t, Sequence> sequences_;  // By session.
};

}  // namespace bastion::drafter

#endif  // BASTION_DRAFTER_SERVICE_SESSION_DRAFTER_ENGINE_H_
