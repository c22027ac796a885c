// The target model on the CPU: computes the logits and features of rows.
//
// Not thread-safe: one forward at a time.
#ifndef BASTION_VERIFIER_SERVICE_MODEL_FORWARD_H_
#define BASTION_VERIFIER_SERVICE_MODEL_FORWARD_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/model/causal_model.h"
#include "verifier_service/verify/choose_tokens.h"

namespace bastion::verifier {

class TargetModel {
 public:
  // Errors: see nn::LoadCausalModel.
  static absl::StatusOr<std::unique_ptr<TargetModel>> Load(const std::string& folder,
                                                           const nn::EngineOptions& options);

  // Runs one forward over `batch` and writes keys and values to the cache. With `feature_layers`,
  // the rows' features are at features() until the next call.
  void Forward(const nn::RowBatch& batch, absl::Span<const int> feature_layers);

  // Computes the logits of the first `rows` rows of the last Forward. The caller may modify them.
  // REQUIRES: 1 <= rows <= the rows of that Forward.
  LogitRows Logits(int rows);
  // Experts that the rows of the last Forward chose (nn::Decoder::touched_experts).
  [[nodiscard]] double touched_experts() const { return model_.decoder->touched_experts(); }
  // Features [R, F] of the last Forward, F = feature_layers.size() * C.
  [[nodiscard]] const float* features() const { return features_data_; }

  // The bytes read and the multiply-adds of a forward, including its logits.
  [[nodiscard]] nn::ForwardCost Cost() const { return model_.Cost(); }

  [[nodiscard]] nn::KvCache& cache() { return model_.decoder->cache(); }
  [[nodiscard]] const hub::ModelConfig& config() const { return model_.decoder->config(); }
  [[nodiscard]] const nn::Device& device() const { return model_.decoder->device(); }

 private:
  explicit TargetModel(nn::CausalModel model) : model_(std::move(model)) {}

  nn::CausalModel model_;
  nn::Scratch hidden_, normed_, logits_, features_;
  float* hidden_data_ = nullptr;
  float* features_data_ = nullptr;
};

}  // namespace bastion::verifier

#endif  // BASTION_VERIFIER_SERVICE_MODEL_FORWARD_H_
