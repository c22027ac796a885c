// FeaturePair: a drafter that reads features and tokens, and its target, as such drafters need them
// (stateful_model.h). Their heads have rows for some tokens only.
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

// What the config of such a drafter says about its target.
struct FeatureNeeds {
  int draft_vocabulary = 0;  // Rows of the head.
  int target_hidden = 0;
  std::vector<int> target_layers;  // Empty: DefaultEagleLayers.
};

struct FeaturePair {
  hub::ModelConfig drafter;  // max_positions covers a tree at the target's last position.
  hub::ModelConfig target;
  std::shared_ptr<const hub::Checkpoint> checkpoint, target_checkpoint;
  FeatureNeeds needs;  // With the layers.

  [[nodiscard]] int feature_width() const {
    return static_cast<int>(needs.target_layers.size()) * target.dims.hidden;
  }
};

// INVALID_ARGUMENT if the drafter was trained for another target; the errors of the two configs and
// of the checkpoints' files. `needs` reads what the drafter's config says.
[[nodiscard]] absl::StatusOr<FeaturePair> ReadFeaturePair(
    const std::string& drafter_folder, const std::string& target_folder,
    FeatureNeeds (*needs)(const hub::DrafterConfig& config));

// The embedding of the drafter or of the target, and the head of the drafter or of the target, with
// rows for the draft vocabulary. Of these, only those of options.head_tokens, if that is not null.
// INVALID_ARGUMENT if the checkpoint does not say which tokens these are.
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
