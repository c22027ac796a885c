#include "verifier_service/model/forward.h"

#include <algorithm>

#include "common/base/status.h"

namespace bastion::verifier {

absl::StatusOr<std::unique_ptr<TargetModel>> TargetModel::Load(const std::string& folder,
                                                               const nn::EngineOptions& options) {
  nn::PackingPlan plan;
  ASSIGN_OR_RETURN(nn::CausalModel model, nn::LoadCausalModel(folder, options, plan));
  RETURN_IF_ERROR(plan.Run(folder, options));
  return std::unique_ptr<TargetModel>(new TargetModel(std::move(model)));
}

void TargetModel::Forward(const nn::RowBatch& batch, absl::Span<const int> feature_layers) {
  const int width = config().dims.hidden;
  const int64_t feature_width = int64_t{width} * static_cast<int64_t>(feature_layers.size());
  const int rows = batch.rows();
  hidden_data_ = hidden_.Reserve(rows, width);                                    // [R, C]
  features_data_ = features_.Reserve(rows, std::max<int64_t>(feature_width, 1));  // [R, F]
  model_.vocabulary.Embed(device(), batch.tokens(), hidden_data_);
  model_.decoder->Forward(batch, hidden_data_, [&](int layer, const float* x) {
    for (size_t part = 0; part < feature_layers.size(); ++part) {
      if (feature_layers[part] != layer) continue;
      for (int64_t row = 0; row < rows; ++row) {
        std::copy_n(x + row * width, width, features_data_ + row * feature_width + part * width);
      }
    }
  });
}

LogitRows TargetModel::Logits(int rows) {
  float* normed = normed_.Reserve(rows, config().dims.hidden);      // [rows, C]
  float* logits = logits_.Reserve(rows, config().dims.vocabulary);  // [rows, V]
  model_.decoder->FinalNorm(hidden_data_, rows, normed);
  model_.vocabulary.Logits(device(), normed, rows, logits);
  return {logits, rows, config().dims.vocabulary};
}

}  // namespace bastion::verifier
