#include "verifier_service/model/cpu_target.h"

#include <algorithm>
#include <utility>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "kernels/ops/pack.h"
#include "verifier_service/commit/kv_compaction.h"
#include "verifier_service/model/device_probe.h"
#include "verifier_service/model/forward.h"
#include "verifier_service/verify/accept.h"

namespace bastion::verifier {
namespace {

class CpuTarget final : public Target {
 public:
  CpuTarget(std::unique_ptr<TargetModel> model, DType dtype)
      : model_(std::move(model)),
        weights_(dtype),
        type_(dtype == DType::kF32 ? DType::kF32 : DType::kBF16) {}

  void WakeUp() override { pool().Wake(); }
  absl::Status SetFeatureLayers(const std::vector<int>& layers) override {
    layers_ = layers;
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<absl::StatusOr<Acceptance>>> Verify(const nn::RowBatch& batch,
                                                                 absl::Span<const TreeRows> trees,
                                                                 TimingTrace& trace) override;
  absl::Span<const char> KeptFeatures(int index) const override {
    return absl::MakeConstSpan(kept_).subspan(kept_begins_[index],
                                              kept_begins_[index + 1] - kept_begins_[index]);
  }
  DType feature_type() const override { return type_; }
  absl::StatusOr<PlainStep> DecodeOne(const nn::RowBatch& batch, const TreeRows& root) override;

  nn::PagePool& pages() override { return model_->cache(); }
  const hub::ModelConfig& config() const override { return model_->config(); }
  nn::ForwardCost Cost() const override { return model_->Cost(); }
  std::string DescribeDevice() const override { return verifier::DescribeDevice(model_->device()); }
  bool on_gpu() const override { return false; }
  DevicePeaks MeasurePeaks() override { return verifier::MeasurePeaks(model_->device(), weights_); }

 private:
  [[nodiscard]] kernels::ThreadPool& pool() { return *model_->device().pool; }
  [[nodiscard]] absl::StatusOr<Acceptance> AcceptTree(const TreeRows& rows,
                                                      const std::vector<TokenId>& choices,
                                                      const LogitRows& logits) const;
  // Chooses a token after each row of `trees`, and walks them.
  [[nodiscard]] std::vector<absl::StatusOr<Acceptance>> AcceptTrees(
      absl::Span<const TreeRows> trees, const LogitRows& logits) const;
  // Keeps the features of the accepted rows and of the prompts' rows.
  void KeepFeatures(const nn::RowBatch& batch, absl::Span<const TreeRows> trees,
                    const std::vector<absl::StatusOr<Acceptance>>& outcomes);
  // Appends the features of `row` to kept_.
  void Keep(int row);

  std::unique_ptr<TargetModel> model_;
  const DType weights_;
  const DType type_;  // The features' type.
  std::vector<int> layers_;
  std::vector<char> kept_;  // [rows kept, F] of type_
  // [spans + 1] The byte offset of each span's rows in kept_, then the end of the last span's rows.
  std::vector<size_t> kept_begins_{0};
};

void CpuTarget::Keep(int row) {
  const size_t width = layers_.size() * config().dims.hidden;
  const DType dtype = type_ == DType::kF32 ? DType::kF32 : DType::kBF16;
  const size_t begin = kept_.size();
  kept_.resize(begin + width * BytesPerElement(dtype));
  kernels::ConvertElements(DType::kF32, model_->features() + row * width,
                           static_cast<int64_t>(width), dtype, kept_.data() + begin);
}

absl::StatusOr<Acceptance> CpuTarget::AcceptTree(const TreeRows& rows,
                                                 const std::vector<TokenId>& choices,
                                                 const LogitRows& logits) const {
  const absl::Span<const TokenId> own(choices.data() + rows.first_row, rows.tree->rows());
  if (std::find(own.begin(), own.end(), -1) != own.end()) return NanLogits();
  Acceptance acceptance = Accept(*rows.tree, own);
  if (rows.sampling->logprobs) {
    const auto logits_of = [&](NodeIndex node) { return logits.row(rows.first_row + node); };
    acceptance.logprobs =
        LogprobsOf(model_->device(), logits_of, logits.vocabulary, rows, acceptance);
  }
  return acceptance;
}

std::vector<absl::StatusOr<Acceptance>> CpuTarget::AcceptTrees(absl::Span<const TreeRows> trees,
                                                               const LogitRows& logits) const {
  const std::vector<TokenId> choices = ChooseTokens(model_->device(), logits, trees);
  std::vector<absl::StatusOr<Acceptance>> outcomes;
  outcomes.reserve(trees.size());
  for (const TreeRows& rows : trees) outcomes.push_back(AcceptTree(rows, choices, logits));
  return outcomes;
}

void CpuTarget::KeepFeatures(const nn::RowBatch& batch, absl::Span<const TreeRows> trees,
                             const std::vector<absl::StatusOr<Acceptance>>& outcomes) {
  kept_.clear();
  kept_begins_.resize(1);
  for (size_t i = 0; i < batch.spans().size(); ++i) {
    const kernels::AttentionSpan& span = batch.spans()[i];
    if (i >= trees.size()) {
      for (int row = 0; row < span.rows; ++row) Keep(span.first_row + row);
    } else if (outcomes[i].ok()) {
      Keep(span.first_row);
      for (const NodeIndex node : outcomes[i]->path) Keep(span.first_row + node);
    }
    kept_begins_.push_back(kept_.size());
  }
}

absl::StatusOr<std::vector<absl::StatusOr<Acceptance>>> CpuTarget::Verify(
    const nn::RowBatch& batch, absl::Span<const TreeRows> trees, TimingTrace& trace) {
  StopWatch watch;
  model_->Forward(batch, layers_);
  trace.experts = model_->touched_experts();
  std::vector<absl::StatusOr<Acceptance>> outcomes;
  if (const int rows = RowCount(trees); rows > 0) {
    const LogitRows logits = model_->Logits(rows);
    trace.forward = watch.Lap();
    outcomes = AcceptTrees(trees, logits);
    trace.accept = watch.Lap();
  } else {
    trace.forward = watch.Lap();
  }
  KvMoves moves;
  for (size_t i = 0; i < trees.size(); ++i) {
    if (outcomes[i].ok()) moves.Add(*trees[i].table, trees[i].cached, outcomes[i]->path);
  }
  CompactKv(model_->device(), model_->cache(), config().dims.layers, moves);
  pool().Rest();
  trace.commit = watch.Lap();
  KeepFeatures(batch, trees, outcomes);
  trace.feature_export = watch.Lap();
  return outcomes;
}

absl::StatusOr<PlainStep> CpuTarget::DecodeOne(const nn::RowBatch& batch, const TreeRows& root) {
  model_->Forward(batch, {});
  const LogitRows logits = model_->Logits(batch.rows());
  const TokenId choice = ChooseTokens(model_->device(), logits, {root}).front();
  pool().Rest();
  return PlainStep{choice, logits.values};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Target>> LoadCpuTarget(const std::string& folder,
                                                      const nn::EngineOptions& options) {
  ASSIGN_OR_RETURN(auto model, TargetModel::Load(folder, options));
  return std::make_unique<CpuTarget>(std::move(model), options.dtype);
}

}  // namespace bastion::verifier
