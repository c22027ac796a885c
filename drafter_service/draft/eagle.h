// EAGLE-3: one decoder layer over the target's features (Li et al., arXiv 2503.01840), in the
// formats of SafeAILab, SpecForge, AngelSlim and speculators.
//
// The row of token t reads the embedding of t and a state of the token before it
// (stateful_model.h): its fused features (fc), or what the layer has computed for it.
//
// Not thread-safe: one call at a time. Shape legend: common/base/ids.h.
#ifndef BASTION_DRAFTER_SERVICE_DRAFT_EAGLE_H_
#define BASTION_DRAFTER_SERVICE_DRAFT_EAGLE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "drafter_service/draft/checked_drafter.h"
#include "drafter_service/draft/feature_pair.h"
#include "drafter_service/draft/stateful_model.h"
#include "engine/model/engine_options.h"

namespace bastion::drafter {

// The weights that only EAGLE-3 has.
struct EagleWeights {
  nn::Matrix fuse;         // [C, F]
  nn::Norm token_norm;     // For the embeddings of tokens.
  nn::Norm state_norm;     // For fused features and states.
  HostNorm features_norm;  // [F] of the features; or none
  // [F / layers] Norms for the features of each layer, instead of `features_norm`; or none
  std::vector<HostNorm> layer_norms;
  HostNorm output_norm;  // [C] of the states that nodes hand to their children; or none
};

// Checks the checkpoints as EagleModel::Load does, without reading the weights.
[[nodiscard]] absl::StatusOr<CheckedDrafter> CheckEagle(const std::string& drafter_folder,
                                                        const std::string& target_folder,
                                                        const nn::EngineOptions& options);

class EagleModel final : public StatefulModel {
 public:
  // Returns the errors of ReadFeaturePair, LoadDraftVocabulary and the checkpoint's files;
  // RESOURCE_EXHAUSTED if the device has too little memory.
  static absl::StatusOr<std::unique_ptr<EagleModel>> Load(const std::string& drafter_folder,
                                                          const std::string& target_folder,
                                                          const nn::EngineOptions& options);

  nn::ForwardCost Cost() const override;

 private:
  friend absl::StatusOr<CheckedDrafter> CheckEagle(const std::string&, const std::string&,
                                                   const nn::EngineOptions&);

  // The matrices are empty until `plan` has run.
  static absl::StatusOr<std::unique_ptr<EagleModel>> Read(const FeaturePair& pair,
                                                          const nn::EngineOptions& options,
                                                          nn::PackingPlan& plan);
  EagleModel(StatefulWeights weights, EagleWeights own)
      : StatefulModel(std::move(weights)), own_(std::move(own)) {}

  void Enter(const kernels::Rows& rows, bool from_features) override;
  bool edits_features() const override {
    return !own_.features_norm.empty() || !own_.layer_norms.empty();
  }
  void EditFeatures(float* values) const override;
  absl::Status Complete(int rows, absl::Span<const int> wanted,
                        std::vector<Marginals>& marginals) override;

  EagleWeights own_;
};

}  // namespace bastion::drafter

#endif  // BASTION_DRAFTER_SERVICE_DRAFT_EAGLE_H_
