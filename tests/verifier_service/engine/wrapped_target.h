// A target that passes every call on to another one. Tests override the calls that should fail.
#ifndef BASTION_TESTS_VERIFIER_SERVICE_ENGINE_WRAPPED_TARGET_H_
#define BASTION_TESTS_VERIFIER_SERVICE_ENGINE_WRAPPED_TARGET_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "verifier_service/model/target_model.h"

namespace bastion::verifier {

class WrappedTarget : public Target {
 public:
  explicit WrappedTarget(std::unique_ptr<Target> target) : target_(std::move(target)) {}

  absl::Status SetFeatureLayers(const std::vector<int>& layers) override {
    return target_->SetFeatureLayers(layers);
  }
  absl::StatusOr<std::vector<absl::StatusOr<Acceptance>>> Verify(const nn::RowBatch& batch,
                                                                 absl::Span<const TreeRows> trees,
                                                                 TimingTrace& trace) override {
    return target_->Verify(batch, trees, trace);
  }
  absl::Span<const char> KeptFeatures(int index) const override {
    return target_->KeptFeatures(index);
  }
  DType feature_type() const override { return target_->feature_type(); }
  absl::StatusOr<PlainStep> DecodeOne(const nn::RowBatch& batch, const TreeRows& root) override {
    return target_->DecodeOne(batch, root);
  }
  nn::PagePool& pages() override { return target_->pages(); }
  const hub::ModelConfig& config() const override { return target_->config(); }
  nn::ForwardCost Cost() const override { return target_->Cost(); }
  nn::Device& device() const override { return target_->device(); }
  DevicePeaks MeasurePeaks() override { return target_->MeasurePeaks(); }

 private:
  const std::unique_ptr<Target> target_;
};

// A TargetLoader for `Wrapped`, which wraps the target.
template <typename Wrapped>
absl::StatusOr<std::unique_ptr<Target>> LoadWrapped(const std::string& folder,
                                                    const nn::EngineOptions& options) {
  auto target = LoadTarget(folder, options);
  if (!target.ok()) return target.status();
  return std::make_unique<Wrapped>(*std::move(target));
}

}  // namespace bastion::verifier

#endif  // BASTION_TESTS_VERIFIER_SERVICE_ENGINE_WRAPPED_TARGET_H_
