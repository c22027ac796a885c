// An autoregressive drafter: any causal language model that this project can serve, usually a small
// relative of the target with the same tokenizer (Leviathan et al., arXiv 2211.17192). It predicts
// one position per node, from the tokens alone; it does not read the target's features.
//
// Not thread-safe: one call at a time. Shape legend: common/base/ids.h.
#ifndef BASTION_DRAFTER_SERVICE_DRAFT_AUTOREGRESSIVE_H_
#define BASTION_DRAFTER_SERVICE_DRAFT_AUTOREGRESSIVE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/stages/marginals.h"
#include "drafter_service/draft/checked_drafter.h"
#include "drafter_service/draft/node_model.h"
#include "drafter_service/draft/ranking.h"
#include "engine/model/causal_model.h"
#include "engine/model/row_batch.h"
#include "engine/model/step.h"
#include "kernels/ops/ops.h"

namespace bastion::drafter {

// INVALID_ARGUMENT if the vocabularies or the tokenizers of the two folders differ; the errors of
// their config files.
[[nodiscard]] absl::Status CheckAutoregressivePair(const std::string& drafter_folder,
                                                   const std::string& target_folder);
// Checks the checkpoints as AutoregressiveModel::Load does, without reading the weights.
[[nodiscard]] absl::StatusOr<CheckedDrafter> CheckAutoregressive(const std::string& drafter_folder,
                                                                 const std::string& target_folder,
                                                                 const nn::EngineOptions& options);

class AutoregressiveModel final : public NodeModel {
 public:
  // The model in `drafter_folder`. The errors of CheckAutoregressivePair and of the checkpoint's
  // files; RESOURCE_EXHAUSTED if the device has too little memory.
  static absl::StatusOr<std::unique_ptr<AutoregressiveModel>> Load(
      const std::string& drafter_folder, const std::string& target_folder,
      const nn::EngineOptions& options);

  void WakeUp() override { device().Wake(); }
  absl::Status Forward(const NodeRows& rows) override;
  absl::StatusOr<std::vector<Marginals>> Predict(const NodeRows& rows, absl::Span<const int> wanted,
                                                 absl::Span<const kernels::ChoiceRule> coupling,
                                                 int candidates) override;
  absl::Duration candidates_time() const override { return candidates_time_; }
  const std::vector<int>& feature_layers() const override { return no_layers_; }
  size_t state_bytes() const override { return 0; }
  const char* state(int /*row*/) const override { return nullptr; }
  int max_rows() const override { return model_.decoder->capacity().rows; }
  nn::PagePool& pages() override { return model_.decoder->cache(); }
  const hub::ModelConfig& config() const override { return model_.decoder->config(); }
  nn::ForwardCost Cost() const override { return model_.Cost(); }

 private:
  explicit AutoregressiveModel(nn::CausalModel model) : model_(std::move(model)) {}

  [[nodiscard]] nn::Device& device() const { return model_.decoder->device(); }

  const std::vector<int> no_layers_ = {};
  nn::CausalModel model_;
  std::unique_ptr<nn::Step> step_;
  Ranking ranking_;
  absl::Duration candidates_time_;
};

}  // namespace bastion::drafter

#endif  // BASTION_DRAFTER_SERVICE_DRAFT_AUTOREGRESSIVE_H_
