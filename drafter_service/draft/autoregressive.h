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

class AutoregressiveModel {
 public:
  // Rows of one drafted tree. A tree with more gets no more drafts in its cycle.
  static constexpr int kTreeRows = 4096;

  // The model in `drafter_folder`. The errors of CheckAutoregressivePair and of the checkpoint's
  // files; RESOURCE_EXHAUSTED if the device has too little memory.
  static absl::StatusOr<std::unique_ptr<AutoregressiveModel>> Load(
      const std::string& drafter_folder, const std::string& target_folder,
      const nn::EngineOptions& options);

  // Hint that a call is about to start. Wakes the worker threads.
  void WakeUp() { device().Wake(); }

  // Runs one forward over `batch` and writes keys and values to the cache. REQUIRES: batch.rows()
  // <= max_rows().
  [[nodiscard]] absl::Status Forward(const nn::RowBatch& batch) {
    return step_->Forward({.batch = batch});
  }
  // Also predicts the distribution of the token after each of `rows`, rows of the batch. `coupling`
  // has one rule per row (kernels::TopKArgs).
  [[nodiscard]] absl::StatusOr<std::vector<Marginals>> Predict(
      const nn::RowBatch& batch, absl::Span<const int> rows,
      absl::Span<const kernels::ChoiceRule> coupling, int candidates);
  // The part of the last Predict that ranked candidates.
  [[nodiscard]] absl::Duration candidates_time() const { return candidates_time_; }

  // Rows of one forward.
  [[nodiscard]] int max_rows() const { return model_.decoder->capacity().rows; }
  [[nodiscard]] nn::PagePool& pages() { return model_.decoder->cache(); }
  [[nodiscard]] const hub::ModelConfig& config() const { return model_.decoder->config(); }
  // The bytes read and the multiply-adds of a forward, including its logits.
  [[nodiscard]] nn::ForwardCost Cost() const { return model_.Cost(); }

 private:
  explicit AutoregressiveModel(nn::CausalModel model) : model_(std::move(model)) {}

  [[nodiscard]] nn::Device& device() const { return model_.decoder->device(); }

  nn::CausalModel model_;
  std::unique_ptr<nn::Step> step_;
  Ranking ranking_;
  absl::Duration candidates_time_;
};

}  // namespace bastion::drafter

#endif  // BASTION_DRAFTER_SERVICE_DRAFT_AUTOREGRESSIVE_H_
