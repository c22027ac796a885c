#include "verifier_service/model/cuda_target.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "engine/cuda/gpu.h"
#include "verifier_service/model/cuda_step.h"

namespace bastion::verifier {
namespace {

using kernels::cuda::WalkResult;

class CudaTarget final : public Target {
 public:
  CudaTarget(cuda::Gpu gpu, const nn::EngineOptions& options)
      : gpu_(std::move(gpu)), options_(options), pages_(nn::PagesFor(options.kv_tokens)) {}

  [[nodiscard]] absl::Status Load(const std::string& folder);

  absl::Status SetFeatureLayers(const std::vector<int>& layers) override {
    return step_->Record(layers);
  }
  absl::StatusOr<std::vector<absl::StatusOr<Acceptance>>> Verify(const nn::RowBatch& batch,
                                                                 absl::Span<const TreeRows> trees,
                                                                 TimingTrace& trace) override;
  absl::Span<const char> KeptFeatures(int index) const override {
    const size_t row = step_->feature_row_bytes();
    return {step_->kept_features() + kept_begins_[index] * row,
            (kept_begins_[index + 1] - kept_begins_[index]) * row};
  }
  DType feature_type() const override {
    return options_.dtype == DType::kF32 ? DType::kF32 : DType::kBF16;
  }
  std::shared_ptr<const wire::DeviceRingWriter> feature_ring() const override {
    return step_->ring().writer();
  }
  std::optional<uint64_t> KeptRingPosition(int index) const override {
    const auto begin = step_->ring().position();
    if (!begin) return std::nullopt;
    return *begin + kept_begins_[index] * step_->feature_row_bytes();
  }
  absl::StatusOr<PlainStep> DecodeOne(const nn::RowBatch& batch, const TreeRows& root) override;

  nn::PagePool& pages() override { return pages_; }
  const hub::ModelConfig& config() const override { return step_->config(); }
  nn::ForwardCost Cost() const override { return step_->Cost(); }
  std::string DescribeDevice() const override { return gpu_.info.name; }
  bool on_gpu() const override { return true; }
  DevicePeaks MeasurePeaks() override { return step_->MeasurePeaks(); }

 private:
  // Runs the forward over all rows, and the choices and the acceptance walk over `trees`. Returns
  // when the accepted tokens are in host memory.
  [[nodiscard]] absl::Status RunStep(const nn::RowBatch& batch, absl::Span<const TreeRows> trees,
                                     TimingTrace& trace);
  [[nodiscard]] absl::StatusOr<Acceptance> ReadTree(int index, const TreeRows& rows);
  void UpdateKeptBegins(const nn::RowBatch& batch, absl::Span<const TreeRows> trees);
  // Waits until the features of the accepted rows and of the prompts' rows are in host memory.
  [[nodiscard]] absl::Status AwaitFeatures(const nn::RowBatch& batch,
                                           absl::Span<const TreeRows> trees);

  cuda::Gpu gpu_;
  const nn::EngineOptions options_;
  nn::PagePool pages_;
  std::unique_ptr<CudaStep> step_;
  // [spans + 1] Span i keeps rows kept_begins_[i] to kept_begins_[i + 1] − 1 of kept_features().
  std::vector<int> kept_begins_ = {0};
};

absl::Status CudaTarget::Load(const std::string& folder) {
  ASSIGN_OR_RETURN(step_, CudaStep::Load(folder, options_, gpu_));
  RETURN_IF_ERROR(cuda::SaveGemmTable(gpu_, options_.gemm_table));
  RETURN_IF_ERROR(SetFeatureLayers({}));
  return gpu_.stream->Synchronize();
}

std::vector<int32_t> ParentsOf(absl::Span<const TreeRows> trees) {
  std::vector<int32_t> parents;
  for (const TreeRows& rows : trees) {
    for (NodeIndex node = 0; node < rows.tree->rows(); ++node) {
      parents.push_back(node == 0 ? -1 : rows.tree->parent(node));
    }
  }
  return parents;
}

// The maximum number of rows that the walks can keep: the root and the longest path of each tree.
int MaxKept(absl::Span<const TreeRows> trees) {
  int rows_kept = 0;
  for (const TreeRows& rows : trees) {
    int depth = 0;
    for (NodeIndex node = 0; node < rows.tree->rows(); ++node) {
      depth = std::max(depth, rows.tree->depth(node));
    }
    rows_kept += 1 + depth;
  }
  return rows_kept;
}

absl::Status CudaTarget::RunStep(const nn::RowBatch& batch, absl::Span<const TreeRows> trees,
                                 TimingTrace& trace) {
  StopWatch watch;
  const int tree_rows = RowCount(trees);
  const std::vector<int32_t> parents = ParentsOf(trees);
  const std::vector<kernels::ChoiceRule> rules = RulesOf(trees, tree_rows);
  kernels::cuda::Stream& stream = *gpu_.stream;
  stream.ForgetMarks();
  const int begin = stream.Mark();
  RETURN_IF_ERROR(step_->RunForward({batch, parents, rules}));
  if (tree_rows > 0) step_->RunHead(tree_rows);
  const int forwarded = stream.Mark();
  if (tree_rows > 0) {
    RETURN_IF_ERROR(step_->edits().Apply(trees));
    RETURN_IF_ERROR(step_->RunDecision(tree_rows, MaxKept(trees) + batch.rows() - tree_rows));
  } else {
    RETURN_IF_ERROR(stream.Synchronize());
  }
  const absl::Duration elapsed = watch.Lap();
  ASSIGN_OR_RETURN(const double forward, stream.ElapsedSeconds(begin, forwarded));
  trace.forward = std::min(absl::Seconds(forward), elapsed);
  trace.accept = elapsed - trace.forward;
  trace.experts = step_->touched_experts();
  return absl::OkStatus();
}

absl::StatusOr<Acceptance> CudaTarget::ReadTree(int index, const TreeRows& rows) {
  const WalkResult& result = step_->results()[index];
  if (result.path_length < 0) return NanLogits();
  const int32_t* const path = step_->paths() + rows.first_row;
  Acceptance acceptance;
  acceptance.path.assign(path, path + result.path_length);
  acceptance.next = result.next;
  if (rows.sampling->logprobs) {
    step_->edits().Undo();
    absl::Status copied;
    const auto logits_of = [&](NodeIndex node) {
      const auto row = step_->CopyLogits(rows.first_row + node);
      if (!row.ok()) copied = row.status();
      return row.ok() ? *row : step_->host_logits();
    };
    acceptance.logprobs =
        LogprobsOf(options_.device, logits_of, config().dims.vocabulary, rows, acceptance);
    RETURN_IF_ERROR(copied);
  }
  return acceptance;
}

void CudaTarget::UpdateKeptBegins(const nn::RowBatch& batch, absl::Span<const TreeRows> trees) {
  kept_begins_.resize(1);
  for (size_t i = 0; i < batch.spans().size(); ++i) {
    const int kept = i < trees.size() ? 1 + step_->results()[i].path_length : batch.spans()[i].rows;
    kept_begins_.push_back(kept_begins_.back() + kept);
  }
}

absl::Status CudaTarget::AwaitFeatures(const nn::RowBatch& batch,
                                       absl::Span<const TreeRows> trees) {
  if (trees.empty()) return step_->KeepAllFeatures(batch.rows());
  const int tree_rows = RowCount(trees), prompt_rows = batch.rows() - tree_rows;
  if (prompt_rows > 0) {
    RETURN_IF_ERROR(step_->KeepAlso(tree_rows, prompt_rows, kept_begins_[trees.size()]));
  }
  return step_->AwaitCommit(kept_begins_.back());
}

absl::StatusOr<std::vector<absl::StatusOr<Acceptance>>> CudaTarget::Verify(
    const nn::RowBatch& batch, absl::Span<const TreeRows> trees, TimingTrace& trace) {
  RETURN_IF_ERROR(RunStep(batch, trees, trace));
  StopWatch watch;
  std::vector<absl::StatusOr<Acceptance>> outcomes;
  outcomes.reserve(trees.size());
  for (size_t i = 0; i < trees.size(); ++i) {
    outcomes.push_back(ReadTree(static_cast<int>(i), trees[i]));
  }
  UpdateKeptBegins(batch, trees);
  RETURN_IF_ERROR(AwaitFeatures(batch, trees));
  trace.commit = watch.Lap();
  return outcomes;
}

absl::StatusOr<PlainStep> CudaTarget::DecodeOne(const nn::RowBatch& batch, const TreeRows& root) {
  TimingTrace unused;
  RETURN_IF_ERROR(RunStep(batch, {root}, unused));
  RETURN_IF_ERROR(step_->AwaitCommit(/*rows=*/0));
  step_->edits().Undo();
  const TokenId choice = step_->results()[0].path_length < 0 ? -1 : step_->results()[0].next;
  ASSIGN_OR_RETURN(float* const logits, step_->CopyLogits(0));
  return PlainStep{choice, logits};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Target>> LoadCudaTarget(const std::string& folder,
                                                       const nn::EngineOptions& options) {
  if (options.dtype == DType::kInt8) {
    return absl::InvalidArgumentError("--dtype int8 works on CPUs only; use bf16 or fp32 on a GPU");
  }
  if (options.streaming.on()) {
    return absl::UnimplementedError(
        "--attention_sinks and --attention_window work on CPUs only; use --device cpu");
  }
  ASSIGN_OR_RETURN(cuda::Gpu gpu, cuda::OpenGpu(options.gpu, options.gemm_table));
  auto target = std::make_unique<CudaTarget>(std::move(gpu), options);
  RETURN_IF_ERROR(target->Load(folder));
  return target;
}

}  // namespace bastion::verifier
