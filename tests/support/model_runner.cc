#include "tests/support/model_runner.h"

#include <cstring>
#include <numeric>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"

namespace bastion::testing {

absl::StatusOr<std::unique_ptr<ModelRunner>> ModelRunner::Load(const std::string& folder,
                                                               const nn::EngineOptions& options,
                                                               const std::vector<int>& layers) {
  nn::PackingPlan plan;
  ASSIGN_OR_RETURN(nn::CausalModel model, nn::LoadCausalModel(folder, options, plan));
  RETURN_IF_ERROR(plan.Run(folder, options));
  auto runner = std::unique_ptr<ModelRunner>(new ModelRunner(std::move(model)));
  const std::vector<int> sizes = nn::RowBuckets(runner->decoder().capacity().rows);
  ASSIGN_OR_RETURN(runner->step_, nn::Step::Create(runner->decoder(), runner->model_.vocabulary,
                                                   {sizes, sizes, /*gathers=*/true}));
  RETURN_IF_ERROR(runner->step_->SetFeatureLayers(layers, /*show_progress=*/false));
  return runner;
}

std::vector<float> ModelRunner::Run(const nn::RowBatch& batch) {
  rows_ = batch.rows();
  std::vector<int32_t> wanted(rows_);
  std::iota(wanted.begin(), wanted.end(), 0);
  absl::Status run = step_->Forward({.batch = batch, .wanted = wanted});
  if (run.ok()) run = step_->Head();
  CHECK(run.ok()) << run;
  std::vector<float> all;
  for (int row = 0; row < rows_; ++row) {
    const auto logits = step_->logits().Row(row);
    CHECK(logits.ok()) << logits.status();
    all.insert(all.end(), *logits, *logits + step_->logits().vocabulary());
  }
  return all;
}

std::vector<float> ModelRunner::Features() const {
  const DType type = step_->feature_type();
  std::string bytes(rows_ * step_->feature_row_bytes(), '\0');
  nn::Device& device = step_->decoder().device();
  device.Copy(bytes.data(), step_->features(), bytes.size());
  CHECK(device.Finish().ok());
  std::vector<float> floats(bytes.size() / Bytes(type, 1));
  kernels::ConvertElements(type, bytes.data(), static_cast<int64_t>(floats.size()), DType::kF32,
                           floats.data());
  return floats;
}

}  // namespace bastion::testing
