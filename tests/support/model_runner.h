// ModelRunner: a causal model with its step, on any device. Tests compare its logits and features
// with those of other implementations, and with its own. Thread-compatible.
#ifndef BASTION_TESTS_SUPPORT_MODEL_RUNNER_H_
#define BASTION_TESTS_SUPPORT_MODEL_RUNNER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/causal_model.h"
#include "engine/model/step.h"

namespace bastion::testing {

class ModelRunner {
 public:
  // The model in `folder`. Features are the outputs of `layers`.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ModelRunner>> Load(
      const std::string& folder, const nn::EngineOptions& options,
      const std::vector<int>& layers = {});

  // Runs a forward. Returns the logits [R, V] of all rows. Ends the process if it fails.
  std::vector<float> Run(const nn::RowBatch& batch);
  // [R, F] The features of the last Run, as floats.
  [[nodiscard]] std::vector<float> Features() const;

  [[nodiscard]] nn::Decoder& decoder() { return *model_.decoder; }
  [[nodiscard]] nn::KvCache& cache() { return model_.decoder->cache(); }
  [[nodiscard]] const hub::ModelConfig& config() const { return model_.decoder->config(); }
  [[nodiscard]] double touched_experts() const { return step_->touched_experts(); }

 private:
  explicit ModelRunner(nn::CausalModel model) : model_(std::move(model)) {}

  nn::CausalModel model_;
  std::unique_ptr<nn::Step> step_;
  int rows_ = 0;  // Rows of the last Run.
};

}  // namespace bastion::testing

#endif  // BASTION_TESTS_SUPPORT_MODEL_RUNNER_H_
