// FeaturePair: a drafter that reads features and tokens (stateful_model.h), and its target. The
// head of such a drafter may have rows for some tokens only.
#ifndef BASTION_DRAFTER_SERVICE_DRAFT_FEATURE_PAIR_H_
#define BASTION_DRAFTER_SERVICE_DRAFT_FEATURE_PAIR_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/hub/checkpoint.h"
#include "common/hub/model_config.h"
#include "engine/model/engine_options.h"
#include "engine/model/packing_plan.h"
#include "engine/model/weights.h"

namespace bastion::drafter {

struct FeaturePair {
  // max_positions covers a tree at the target's last position. The layers of the features are set.
  hub::ModelConfig drafter;
  hub::ModelConfig target;
  std::shared_ptr<const hub::Checkpoint> checkpoint, target_checkpoint;

  [[nodiscard]] const std::vector<int>& feature_layers() const {
    return drafter.drafter.head.target_layers;
  }
  [[nodiscard]] int feature_width() const {  // F
    return static_cast<int>(feature_layers().size()) * target.dims.hidden;
  }
};

// INVALID_ARGUMENT if the drafter was trained for another target; the errors of the two configs and
// of the checkpoints' files.
[[nodiscard]] absl::StatusOr<FeaturePair> ReadFeaturePair(const std::string& drafter_folder,
                                                          const std::string& target_folder);

// The embedding and the head, each the drafter's own if it has one, else the target's. The head has
// a row for each token that the drafter can predict and that is in options.head_tokens, if that is
// not null. INVALID_ARGUMENT if the checkpoint does not say which tokens the drafter can predict.
[[nodiscard]] absl::StatusOr<nn::Vocabulary> LoadDraftVocabulary(const FeaturePair& pair,
                                                                 const nn::EngineOptions& options,
                                                                 nn::PackingPlan& plan);

// Errors for tensors that were not read (hub::CheckAllRead).
[[nodiscard]] absl::Status CheckAllRead(const FeaturePair& pair);

// An RMS norm on the host.
struct HostNorm {
  float epsilon = 0;
  std::vector<float> weight;

  [[nodiscard]] bool empty() const { return weight.empty(); }
  // Norms weight.size() values in place.
  void Apply(float* values) const;
};

// The drafter's norm `name` + ".weight".
[[nodiscard]] absl::StatusOr<HostNorm> ReadHostNorm(const FeaturePair& pair,
                                                    const std::string& name, int width);

}  // namespace bastion::drafter

#endif  // BASTION_DRAFTER_SERVICE_DRAFT_FEATURE_PAIR_H_
