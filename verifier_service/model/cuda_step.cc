#include "verifier_service/model/cuda_step.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/progress.h"
#include "common/base/status.h"
#include "common/hub/checkpoint.h"
#include "engine/cuda/row_buckets.h"

namespace bastion::verifier {

using kernels::cuda::Stream;
using kernels::cuda::WalkResult;

absl::StatusOr<std::unique_ptr<CudaStep>> CudaStep::Load(const std::string& folder,
                                                         const nn::EngineOptions& options,
                                                         cuda::Gpu& gpu) {
  ASSIGN_OR_RETURN(const hub::ModelConfig config, hub::ReadTargetConfig(folder));
  ASSIGN_OR_RETURN(const auto checkpoint, hub::Checkpoint::Open(folder));
  auto step = std::unique_ptr<CudaStep>(new CudaStep(gpu));
  // The rejected nodes of a tree may be past the context.
  const cuda::StepCapacity capacity = {(options.max_rows + 63) / 64 * 64, options.max_sequences,
                                       nn::PagesFor(options.kv_tokens),
                                       config.max_positions + options.max_rows};
  std::optional<ProgressBar> bar;
  if (options.show_progress) bar.emplace(absl::StrCat("loading to ", gpu.info.name), "MB");
  cuda::DeviceLoader loader(checkpoint, options.dtype, *gpu.stream,
                            bar.has_value() ? &*bar : nullptr);
  ASSIGN_OR_RETURN(step->decoder_, cuda::DeviceDecoder::Load(loader, config, capacity, gpu));
  ASSIGN_OR_RETURN(step->vocabulary_, cuda::LoadDeviceVocabulary(loader, config));
  RETURN_IF_ERROR(hub::CheckAllRead(*checkpoint, config.names, config.tie_word_embeddings));
  bar.reset();
  ASSIGN_OR_RETURN(step->inputs_, cuda::StepInputs::Create(capacity));
  step->buckets_ = cuda::TreeRowBuckets(capacity.rows);
  RETURN_IF_ERROR(step->Allocate());
  if (options.share_bytes > 0) {
    auto ring = CudaFeatureRing::Create(options.share_bytes, gpu.info.uuid);
    if (ring.ok()) {
      step->ring_ = *std::move(ring);
    } else {
      LOG(WARNING) << "features are copied to drafters through host memory: " << ring.status();
    }
  }
  RETURN_IF_ERROR(step->Prepare(options.show_progress));
  return step;
}

absl::Status CudaStep::Allocate() {
  const size_t rows = inputs_.capacity().rows, spans = inputs_.capacity().spans;
  const size_t vocabulary = config().dims.vocabulary;
  constexpr char kWhat[] = "a step's results";
  ASSIGN_OR_RETURN(logits_,
                   Memory::OnDevice(rows * vocabulary * sizeof(float), "logits; lower --max_rows"));
  edits_.emplace(*gpu_.stream, logits_.as<float>(), config().dims.vocabulary);
  ASSIGN_OR_RETURN(host_logits_, Memory::OnHost(vocabulary * sizeof(float), kWhat));
  ASSIGN_OR_RETURN(choices_, Memory::OnDevice(rows * sizeof(int32_t), kWhat));
  ASSIGN_OR_RETURN(paths_, Memory::OnDevice(rows * sizeof(int32_t), kWhat));
  ASSIGN_OR_RETURN(host_paths_, Memory::OnHost(rows * sizeof(int32_t), kWhat));
  ASSIGN_OR_RETURN(results_, Memory::OnDevice(spans * sizeof(WalkResult), kWhat));
  ASSIGN_OR_RETURN(host_results_, Memory::OnHost(spans * sizeof(WalkResult), kWhat));
  ASSIGN_OR_RETURN(flags_, Memory::OnHost(3 * sizeof(uint64_t), kWhat));
  ASSIGN_OR_RETURN(
      choose_scratch_,
      Memory::OnDevice(kernels::cuda::ChooseScratchBytes(static_cast<int>(rows)), kWhat));
  return absl::OkStatus();
}

absl::Status CudaStep::Prepare(bool show_progress) {
  std::optional<ProgressBar> bar;
  if (show_progress) bar.emplace("tuning GEMMs", "sizes");
  for (size_t i = 0; i < buckets_.size(); ++i) {
    RETURN_IF_ERROR(decoder_->Prepare(buckets_[i], /*with_context=*/false));
    RETURN_IF_ERROR(cuda::PrepareProduct(vocabulary_.head(), decoder_->normed(),
                                         logits_.as<float>(), buckets_[i], gpu_));
    if (bar.has_value()) bar->Show(static_cast<int64_t>(i) + 1, std::ssize(buckets_));
  }
  // Run everything once before recording, because kernels are loaded on first use.
  const nn::RowBatch empty;
  inputs_.Send({empty}, buckets_.front(), *gpu_.stream);
  PutForward(buckets_.front());
  PutDecision(buckets_.front());
  return gpu_.stream->Synchronize();
}

absl::Status CudaStep::Record(const std::vector<int>& layers) {
  RETURN_IF_ERROR(gpu_.stream->Synchronize());
  graphs_.clear();
  taps_.layers = layers;
  const size_t bytes = inputs_.capacity().rows * feature_row_bytes();
  ASSIGN_OR_RETURN(features_, Memory::OnDevice(bytes, "features"));
  ASSIGN_OR_RETURN(kept_features_, Memory::OnHost(bytes, "features"));
  taps_.features = features_.as<void>();
  for (const int rows : buckets_) {
    ASSIGN_OR_RETURN(graphs_[rows], RecordFor(rows));
  }
  return absl::OkStatus();
}

absl::StatusOr<CudaStep::Graphs> CudaStep::RecordFor(int rows) {
  Stream& stream = *gpu_.stream;
  Graphs graphs;
  stream.BeginRecording();
  PutForward(rows);
  ASSIGN_OR_RETURN(graphs.forward, stream.EndRecording());
  stream.BeginRecording();
  cuda::RunProduct(vocabulary_.head(), decoder_->normed(), logits_.as<float>(), rows, gpu_);
  ASSIGN_OR_RETURN(graphs.head, stream.EndRecording());
  stream.BeginRecording();
  PutDecision(rows);
  ASSIGN_OR_RETURN(graphs.decision, stream.EndRecording());
  return graphs;
}

void CudaStep::PutForward(int rows) {
  kernels::cuda::EmbedArgs embed;
  embed.rows = inputs_.Rows(rows);
  embed.table = vocabulary_.table.data();
  embed.dtype = decoder_->dtype();
  embed.y = decoder_->hidden();
  embed.width = config().dims.hidden;
  kernels::cuda::Embed(embed, *gpu_.stream);
  decoder_->Forward(embed.rows, taps_);
}

kernels::cuda::CommitArgs CudaStep::MakeCommitArgs(int rows) const {
  kernels::cuda::CommitArgs commit;
  commit.rows = inputs_.WalkedRows(rows);
  commit.results = results_.as<WalkResult>();
  commit.paths = paths_.as<int32_t>();
  commit.layers = decoder_->layers();
  commit.layer_count = config().dims.layers;
  commit.kv_heads = config().dims.kv_heads;
  commit.head_dim = config().dims.head_dim;
  commit.dtype = decoder_->dtype();
  commit.features = features_.as<void>();
  commit.kept_features = kept_features_.as<void>();
  commit.feature_width = static_cast<int>(feature_width());
  return commit;
}

void CudaStep::PutRing(int rows, int max_kept) {
  in_ring_ = ring_.Reserve(max_kept * feature_row_bytes());
  if (in_ring_ == nullptr) return;
  // A commit with no layers only gathers the rows' features.
  kernels::cuda::CommitArgs gather = MakeCommitArgs(cuda::BucketOf(buckets_, rows));
  gather.layer_count = 0;
  gather.kept_features = in_ring_;
  kernels::cuda::Commit(gather, *gpu_.stream);
  kernels::cuda::RaiseFlag({inputs_.device_step(), &flags_.as<uint64_t>()[2]}, *gpu_.stream);
}

void CudaStep::PutDecision(int rows) {
  Stream& stream = *gpu_.stream;
  const kernels::cuda::StepRows step = inputs_.WalkedRows(rows);
  uint64_t* const flags = flags_.as<uint64_t>();
  kernels::cuda::Choose({step.used, logits_.as<float>(), inputs_.rules(), choices_.as<int32_t>(),
                         choose_scratch_.as<void>(), rows, config().dims.vocabulary},
                        stream);
  kernels::cuda::Walk(
      {step, choices_.as<int32_t>(), results_.as<WalkResult>(), paths_.as<int32_t>(),
       host_results_.as<WalkResult>(), host_paths_.as<int32_t>()},
      stream);
  kernels::cuda::RaiseFlag({inputs_.device_step(), &flags[0]}, stream);
  kernels::cuda::Commit(MakeCommitArgs(rows), stream);
  kernels::cuda::RaiseFlag({inputs_.device_step(), &flags[1]}, stream);
}

const CudaStep::Graphs& CudaStep::GraphsFor(int rows) const {
  return graphs_.at(cuda::BucketOf(buckets_, rows));
}

absl::Status CudaStep::RunForward(const cuda::StepContents& contents) {
  const int rows = contents.batch.rows();
  if (graphs_.size() != buckets_.size()) {
    return absl::InternalError(
        "the CUDA graphs of this model could not be recorded; see the log for the reason");
  }
  if (rows > buckets_.back()) {
    return absl::InvalidArgumentError(
        absl::StrCat(rows, " rows in one step; the limit is ", buckets_.back()));
  }
  inputs_.Send(contents, cuda::BucketOf(buckets_, rows), *gpu_.stream);
  gpu_.stream->Run(*GraphsFor(rows).forward);
  return absl::OkStatus();
}

void CudaStep::RunHead(int rows) { gpu_.stream->Run(*GraphsFor(rows).head); }

absl::Status CudaStep::RunDecision(int rows, int max_kept) {
  gpu_.stream->Run(*GraphsFor(rows).decision);
  PutRing(rows, max_kept);
  return gpu_.stream->AwaitFlag(&flags_.as<uint64_t>()[0], inputs_.step());
}

absl::Status CudaStep::AwaitCommit(int rows) {
  const uint64_t* const flags = flags_.as<uint64_t>();
  RETURN_IF_ERROR(gpu_.stream->AwaitFlag(&flags[ring_.reserved() ? 2 : 1], inputs_.step()));
  if (ring_.reserved()) ring_.Publish(rows * feature_row_bytes());
  return absl::OkStatus();
}

void CudaStep::CopyFeatures(int first, int rows, char* to, int place) {
  const size_t row = feature_row_bytes();
  if (row == 0 || to == nullptr) return;
  gpu_.stream->Copy(to + place * row, features_.as<char>() + first * row, rows * row);
}

absl::Status CudaStep::KeepAlso(int first, int rows, int kept) {
  CopyFeatures(first, rows, kept_features_.as<char>(), kept);
  CopyFeatures(first, rows, in_ring_, kept);
  return gpu_.stream->Synchronize();
}

absl::Status CudaStep::KeepAllFeatures(int rows) {
  in_ring_ = ring_.Reserve(rows * feature_row_bytes());
  RETURN_IF_ERROR(KeepAlso(/*first=*/0, rows, /*kept=*/0));
  if (ring_.reserved()) ring_.Publish(rows * feature_row_bytes());
  return absl::OkStatus();
}

absl::StatusOr<float*> CudaStep::CopyLogits(int row) {
  const size_t vocabulary = config().dims.vocabulary;
  gpu_.stream->Copy(host_logits(), logits_.as<float>() + row * vocabulary,
                    vocabulary * sizeof(float));
  RETURN_IF_ERROR(gpu_.stream->Synchronize());
  return host_logits();
}

nn::ForwardCost CudaStep::Cost() const {
  nn::ForwardCost cost = decoder_->Cost();
  cuda::AddCost(vocabulary_.head(), cost);
  return cost;
}

DevicePeaks CudaStep::MeasurePeaks() {
  constexpr int kTimes = 10;
  const int rows = buckets_.back();
  Stream& stream = *gpu_.stream;
  double seconds = 0;
  for (int round = 0; round < 2; ++round) {  // The first is a warm-up.
    stream.ForgetMarks();
    const int begin = stream.Mark();
    for (int i = 0; i < kTimes; ++i) {
      cuda::RunProduct(vocabulary_.head(), decoder_->normed(), logits_.as<float>(), rows, gpu_);
    }
    const auto elapsed = stream.ElapsedSeconds(begin, stream.Mark());
    seconds = elapsed.ok() ? *elapsed / kTimes : 0;
  }
  const cuda::DeviceMatrix& head = vocabulary_.head();
  const double flops = 2.0 * rows * head.rows * head.columns;
  return {gpu_.info.bytes_per_second, seconds > 0 ? flops / seconds : 0};
}

}  // namespace bastion::verifier
