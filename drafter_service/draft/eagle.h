// EAGLE-3: one decoder layer over the target's features (Li et al., arXiv 2503.01840), in the
// formats of SafeAILab, SpecForge, AngelSlim and speculators. P-EAGLE: such layers that predict P
// tokens in one forward, in the format of speculators.
//
// The row of token t reads the embedding of t and a state of the token before it
// (stateful_model.h): its fused features (fc), or what the layer has computed for it.
//
// With P-EAGLE, only the root is expanded. It has P - 1 more rows, at the next positions. They read
// the embedding of the mask token and a learned vector in place of features (mask_hidden). A row
// sees the committed tokens, the root and the mask rows before it. Committed tokens have no mask
// rows.
//
// Not thread-safe: one call at a time. Shape legend: common/base/ids.h.
#ifndef BASTION_DRAFTER_SERVICE_DRAFT_EAGLE_H_
#define BASTION_DRAFTER_SERVICE_DRAFT_EAGLE_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "drafter_service/draft/checked_drafter.h"
#include "drafter_service/draft/feature_pair.h"
#include "drafter_service/draft/stateful_model.h"
#include "engine/model/engine_options.h"

namespace bastion::drafter {

// The weights that only EAGLE-3 and P-EAGLE have.
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

  int positions() const override { return config().drafter.eagle.positions; }
  int rows_per_token() const override { return 1; }
  bool expands_nodes() const override { return !is_parallel(); }
  std::optional<TokenId> mask_token() const override {
    return is_parallel() ? std::optional(config().drafter.eagle.mask_token) : std::nullopt;
  }
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

  [[nodiscard]] bool is_parallel() const { return config().kind == hub::ModelKind::kParallelEagle; }
  void Enter(const kernels::Rows& rows, bool from_features) override;
  bool edits_features() const override {
    return !own_.features_norm.empty() || !own_.layer_norms.empty();
  }
  void EditFeatures(float* values) const override;
  absl::Status Complete(int rows, absl::Span<const int> wanted, bool coupled,
                        std::vector<Marginals>& marginals) override;

  EagleWeights own_;
};

}  // namespace bastion::drafter

#endif  // BASTION_DRAFTER_SERVICE_DRAFT_EAGLE_H_
