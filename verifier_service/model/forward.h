// The target model on the CPU: computes the logits and features of rows.
//
// Not thread-safe: one forward at a time.
#ifndef BASTION_VERIFIER_SERVICE_MODEL_FORWARD_H_
#define BASTION_VERIFIER_SERVICE_MODEL_FORWARD_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/nn/decoder.h"
#include "verifier_service/verify/choose_tokens.h"

namespace bastion::verifier {

class TargetModel {
 public:
  // Errors name the folder and, where it applies, the file and the tensor. INVALID_ARGUMENT if the
  // folder contains a drafter.
  static absl::StatusOr<std::unique_ptr<TargetModel>> Load(const std::string& folder,
                                                           const nn::EngineOptions& options);

  // Runs one forward over `batch` and writes keys and values to the cache. With `feature_layers`,
  // the rows' features are at features() until the next call.
  void Forward(const nn::RowBatch& batch, absl::Span<const int> feature_layers);

  // Computes the logits of the first `rows` rows of the last Forward. The caller may modify them.
  // REQUIRES: 1 <= rows <= the rows of that Forward.
  LogitRows Logits(int rows);
  // Features [R, F] of the last Forward, F = feature_layers.size() * C.
  [[nodiscard]] const float* features() const { return features_data_; }

  // The bytes read and the multiply-adds of a forward, including its logits.
  [[nodiscard]] nn::ForwardCost Cost() const;

  [[nodiscard]] nn::KvCache& cache() { return decoder_->cache(); }
  [[nodiscard]] const hub::ModelConfig& config() const { return decoder_->config(); }
  [[nodiscard]] const nn::Device& device() const { return decoder_->device(); }

 private:
  TargetModel(std::unique_ptr<nn::Decoder> decoder, nn::Vocabulary vocabulary)
      : decoder_(std::move(decoder)), vocabulary_(std::move(vocabulary)) {}

  std::unique_ptr<nn::Decoder> decoder_;
  nn::Vocabulary vocabulary_;
  nn::Scratch hidden_, normed_, logits_, features_;
  float* hidden_data_ = nullptr;
  float* features_data_ = nullptr;
};

}  // namespace bastion::verifier

#endif  // BASTION_VERIFIER_SERVICE_MODEL_FORWARD_H_
