#include "drafter_service/draft/cuda_dflash.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/progress.h"
#include "common/base/status.h"
#include "common/hub/checkpoint.h"
#include "engine/cuda/device_decoder.h"
#include "engine/cuda/row_buckets.h"
#include "kernels/cuda/ops.h"
#include "kernels/ops/pack.h"

namespace bastion::drafter {
namespace {

using cuda::DeviceMatrix;
using kernels::cuda::Graph;
using kernels::cuda::Memory;

// Rounds up to a multiple of 64 rows, the largest tile of a matrix product (row_buckets.h).
int RoundUpToTile(int rows) { return (rows + 63) / 64 * 64; }

// Describes how this process reads features in the memory of its GPU.
DeviceReader MakeReader(const kernels::cuda::DeviceInfo& info, DType dtype) {
  const auto import = [](int descriptor,
                         uint64_t bytes) -> absl::StatusOr<std::shared_ptr<const char>> {
    ASSIGN_OR_RETURN(Memory memory, Memory::Import(descriptor, bytes));
    const auto shared = std::make_shared<const Memory>(std::move(memory));
    return std::shared_ptr<const char>(shared, shared->as<char>());
  };
  return {info.uuid, dtype == DType::kF32 ? DType::kF32 : DType::kBF16, import};
}

class CudaDflash final : public DraftModel {
 public:
  CudaDflash(cuda::Gpu gpu, const nn::EngineOptions& options)
      : gpu_(std::move(gpu)),
        options_(options),
        reader_(MakeReader(gpu_.info, options.dtype)),
        pages_(nn::PagesFor(options.kv_tokens)) {}

  [[nodiscard]] absl::Status Load(const std::string& drafter_folder,
                                  const std::string& target_folder);

  absl::Status AppendContext(const std::vector<ContextItem>& items) override;
  absl::StatusOr<std::vector<Marginals>> Draft(const std::vector<BlockItem>& items,
                                               int candidates) override;
  nn::PagePool& pages() override { return pages_; }
  nn::ForwardCost Cost() const override;
  const hub::ModelConfig& config() const override { return config_; }
  const DeviceReader* device_reader() const override { return &reader_; }

 private:
  using Graphs = std::map<int, std::unique_ptr<Graph>>;  // By the number of rows or blocks.

  [[nodiscard]] absl::Status LoadWeights(const std::string& drafter_folder,
                                         const std::string& target_folder);
  [[nodiscard]] absl::Status Allocate();
  [[nodiscard]] absl::Status Prepare();
  [[nodiscard]] absl::Status Record();
  // Put the kernels for `rows` rows on the stream, to run or to record them.
  void PutContext(int rows);
  void PutDraft(int rows);
  // Copies the features of all items to the device, one item after the other.
  [[nodiscard]] absl::Status StageFeatures(const std::vector<ContextItem>& items);
  [[nodiscard]] absl::Status RunDraft(const std::vector<BlockItem>& items, int candidates);
  [[nodiscard]] int block() const { return config_.dflash.block_size; }
  [[nodiscard]] size_t element() const { return BytesPerElement(options_.dtype); }

  cuda::Gpu gpu_;
  const nn::EngineOptions options_;
  const DeviceReader reader_;
  nn::PagePool pages_;
  hub::ModelConfig config_, target_config_;
  std::unique_ptr<cuda::DeviceDecoder> decoder_;
  cuda::DeviceVocabulary vocabulary_;
  DeviceMatrix fuse_;    // [C, F]
  Memory context_norm_;  // [C]
  // Separate buffers, so that a draft can be sent while the context before it is still being
  // computed.
  cuda::StepInputs context_inputs_, block_inputs_;
  std::vector<int> context_buckets_, block_buckets_;
  Graphs context_graphs_, draft_graphs_;
  Memory host_features_, features_;  // [R, F] in the weights' type
  Memory logits_;                    // [B (P + 1), V]
  Memory top_k_scratch_;
  Memory tokens_, log_probs_;     // [B (P + 1), K], host memory
  bool context_pending_ = false;  // Context was sent after the last Synchronize().
};

absl::Status CudaDflash::Load(const std::string& drafter_folder, const std::string& target_folder) {
  RETURN_IF_ERROR(LoadWeights(drafter_folder, target_folder));
  RETURN_IF_ERROR(Allocate());
  RETURN_IF_ERROR(Prepare());
  RETURN_IF_ERROR(cuda::SaveGemmTable(gpu_, options_.gemm_table));
  RETURN_IF_ERROR(Record());
  return gpu_.stream->Synchronize();
}

absl::Status CudaDflash::LoadWeights(const std::string& drafter_folder,
                                     const std::string& target_folder) {
  ASSIGN_OR_RETURN(DraftPair pair, ReadDraftPair(drafter_folder, target_folder));
  config_ = std::move(pair.drafter);
  target_config_ = std::move(pair.target);
  ASSIGN_OR_RETURN(const auto checkpoint, hub::Checkpoint::Open(drafter_folder));
  ASSIGN_OR_RETURN(auto target, hub::Checkpoint::Open(target_folder));
  const cuda::StepCapacity capacity = {
      RoundUpToTile(std::max(options_.max_rows, options_.max_sequences * block())),
      options_.max_sequences, pages_.total_pages(), config_.max_positions};
  std::optional<ProgressBar> bar;
  if (options_.show_progress) bar.emplace(absl::StrCat("loading to ", gpu_.info.name), "MB");
  cuda::DeviceLoader loader(checkpoint, options_.dtype, *gpu_.stream,
                            bar.has_value() ? &*bar : nullptr);
  cuda::DeviceLoader target_loader(std::move(target), options_.dtype, *gpu_.stream, nullptr);
  ASSIGN_OR_RETURN(decoder_, cuda::DeviceDecoder::Load(loader, config_, capacity, gpu_));
  ASSIGN_OR_RETURN(fuse_, loader.Stacked({"fc.weight"}, {config_.dims.hidden}, feature_width()));
  ASSIGN_OR_RETURN(context_norm_, loader.Vector("hidden_norm.weight", config_.dims.hidden));
  RETURN_IF_ERROR(hub::CheckAllRead(*checkpoint, config_.names, config_.tie_word_embeddings));
  ASSIGN_OR_RETURN(vocabulary_, cuda::LoadDeviceVocabulary(target_loader, target_config_));
  ASSIGN_OR_RETURN(context_inputs_, cuda::StepInputs::Create(capacity));
  ASSIGN_OR_RETURN(block_inputs_, cuda::StepInputs::Create(capacity));
  return absl::OkStatus();
}

absl::Status CudaDflash::Allocate() {
  context_buckets_ = cuda::RowBuckets(options_.max_rows);
  for (const int blocks : cuda::RowBuckets(options_.max_sequences)) {
    block_buckets_.push_back(blocks * block());
  }
  const size_t rows = block_buckets_.back(), vocabulary = config_.dims.vocabulary;
  const size_t feature_bytes = options_.max_rows * feature_width() * element();
  constexpr char kWhat[] = "a draft";
  ASSIGN_OR_RETURN(host_features_, Memory::OnHost(feature_bytes, kWhat));
  ASSIGN_OR_RETURN(features_, Memory::OnDevice(feature_bytes, kWhat));
  ASSIGN_OR_RETURN(logits_, Memory::OnDevice(rows * vocabulary * sizeof(float),
                                             "a draft's logits; lower --max_sequences"));
  ASSIGN_OR_RETURN(
      top_k_scratch_,
      Memory::OnDevice(
          kernels::cuda::TopKScratchBytes(static_cast<int>(rows), config_.dims.vocabulary), kWhat));
  const size_t max_candidates = rows * kernels::cuda::kMaxCandidates;
  ASSIGN_OR_RETURN(tokens_, Memory::OnHost(max_candidates * sizeof(int32_t), kWhat));
  ASSIGN_OR_RETURN(log_probs_, Memory::OnHost(max_candidates * sizeof(float), kWhat));
  return absl::OkStatus();
}

absl::Status CudaDflash::Prepare() {
  std::optional<ProgressBar> bar;
  const auto steps = static_cast<int64_t>(context_buckets_.size() + block_buckets_.size());
  int64_t done = 0;
  if (options_.show_progress) bar.emplace("tuning GEMMs", "sizes");
  const auto show = [&] {
    if (bar.has_value()) bar->Show(++done, steps);
  };
  for (const int rows : context_buckets_) {
    RETURN_IF_ERROR(decoder_->Prepare(rows, /*with_context=*/true));
    RETURN_IF_ERROR(
        cuda::PrepareProduct(fuse_, features_.as<void>(), decoder_->hidden(), rows, gpu_));
    show();
  }
  for (const int rows : block_buckets_) {
    RETURN_IF_ERROR(decoder_->Prepare(rows, /*with_context=*/false));
    RETURN_IF_ERROR(cuda::PrepareProduct(vocabulary_.head(), decoder_->normed(),
                                         logits_.as<float>(), rows, gpu_));
    show();
  }
  return absl::OkStatus();
}

absl::Status CudaDflash::Record() {
  // Run everything once before recording, because kernels are loaded on first use.
  const nn::RowBatch empty;
  context_inputs_.Send({empty}, context_buckets_.front(), *gpu_.stream);
  PutContext(context_buckets_.front());
  block_inputs_.Send({empty}, block_buckets_.front(), *gpu_.stream);
  PutDraft(block_buckets_.front());
  RETURN_IF_ERROR(gpu_.stream->Synchronize());
  for (const int rows : context_buckets_) {
    gpu_.stream->BeginRecording();
    PutContext(rows);
    ASSIGN_OR_RETURN(context_graphs_[rows], gpu_.stream->EndRecording());
  }
  for (const int rows : block_buckets_) {
    gpu_.stream->BeginRecording();
    PutDraft(rows);
    ASSIGN_OR_RETURN(draft_graphs_[rows], gpu_.stream->EndRecording());
  }
  return absl::OkStatus();
}

void CudaDflash::PutContext(int rows) {
  cuda::RunProduct(fuse_, features_.as<void>(), decoder_->hidden(), rows, gpu_);
  kernels::cuda::RmsNormArgs norm;
  norm.x = decoder_->hidden();
  norm.weight = context_norm_.as<float>();
  norm.y = decoder_->normed();
  norm.dtype = options_.dtype;
  norm.rows = rows;
  norm.width = config_.dims.hidden;
  norm.epsilon = static_cast<float>(config_.blocks.norm_epsilon);
  kernels::cuda::RmsNorm(norm, *gpu_.stream);
  decoder_->StoreContext(context_inputs_.Rows(rows), decoder_->normed());
}

void CudaDflash::PutDraft(int rows) {
  kernels::cuda::EmbedArgs embed;
  embed.rows = block_inputs_.Rows(rows);
  embed.table = vocabulary_.table.data();
  embed.dtype = options_.dtype;
  embed.y = decoder_->hidden();
  embed.width = config_.dims.hidden;
  kernels::cuda::Embed(embed, *gpu_.stream);
  decoder_->Forward(embed.rows, {});
  cuda::RunProduct(vocabulary_.head(), decoder_->normed(), logits_.as<float>(), rows, gpu_);
}

absl::Status CudaDflash::StageFeatures(const std::vector<ContextItem>& items) {
  size_t begin = 0;
  bool from_ring = false;
  for (const ContextItem& item : items) {
    const Features& features = item.features;
    const int64_t count = int64_t{features.rows()} * feature_width();
    const size_t bytes = count * element();
    char* const to = features_.as<char>() + begin;
    if (features.on_device()) {
      if (features.type != reader_.type)
        return absl::AbortedError(
            "this drafter cannot read the type of the features in GPU memory");
      gpu_.stream->Copy(to, features.device.data(), bytes);
      from_ring = true;
    } else {
      char* const converted = host_features_.as<char>() + begin;
      kernels::ConvertElements(features.type, features.bytes.data(), count, options_.dtype,
                               converted);
      gpu_.stream->Copy(to, converted, bytes);
    }
    begin += bytes;
  }
  if (!from_ring) return absl::OkStatus();
  // A copy is valid only if the ring had not overwritten the rows by the time the copy ended.
  RETURN_IF_ERROR(gpu_.stream->Synchronize());
  const bool intact = std::all_of(items.begin(), items.end(), [](const ContextItem& item) {
    return !item.features.on_device() || item.features.device.intact();
  });
  if (!intact)
    return absl::AbortedError("the features in the ring were overwritten while they were read");
  return absl::OkStatus();
}

absl::Status CudaDflash::AppendContext(const std::vector<ContextItem>& items) {
  ASSIGN_OR_RETURN(const nn::RowBatch batch, LayOutContext(items, feature_width(), pages_));
  if (batch.rows() == 0) return absl::OkStatus();
  if (batch.rows() > context_buckets_.back()) {
    return absl::InvalidArgumentError(absl::StrCat(
        batch.rows(), " rows of context in one call; the limit is ", context_buckets_.back()));
  }
  // Wait until the device has read the previous context from the staging buffers.
  if (context_pending_) {
    RETURN_IF_ERROR(gpu_.stream->Synchronize());
  }
  RETURN_IF_ERROR(StageFeatures(items));
  const int rows = cuda::BucketOf(context_buckets_, batch.rows());
  context_inputs_.Send({batch}, rows, *gpu_.stream);
  gpu_.stream->Run(*context_graphs_.at(rows));
  context_pending_ = true;
  return absl::OkStatus();
}

absl::Status CudaDflash::RunDraft(const std::vector<BlockItem>& items, int candidates) {
  const nn::RowBatch batch = LayOutBlocks(items, config_.dflash);
  // The root's row is not ranked, so its rule is unused.
  const std::vector<kernels::ChoiceRule> ranked = CouplingRules(items, positions());
  std::vector<kernels::ChoiceRule> rules(batch.rows());
  for (size_t b = 0; b < items.size(); ++b) {
    std::copy_n(ranked.begin() + b * positions(), positions(), rules.begin() + b * block() + 1);
  }
  const int rows = cuda::BucketOf(block_buckets_, batch.rows());
  block_inputs_.Send({batch, {}, rules}, rows, *gpu_.stream);
  gpu_.stream->Run(*draft_graphs_.at(rows));
  kernels::cuda::TopKArgs top;
  top.rows_used = block_inputs_.Rows(rows).used;
  top.logits = logits_.as<float>();
  top.coupling = block_inputs_.rules();
  top.tokens = tokens_.as<int32_t>();
  top.log_probs = log_probs_.as<float>();
  top.scratch = top_k_scratch_.as<void>();
  top.rows = rows;
  top.vocabulary = config_.dims.vocabulary;
  top.candidates = candidates;
  kernels::cuda::TopK(top, *gpu_.stream);
  context_pending_ = false;
  return gpu_.stream->Synchronize();
}

absl::StatusOr<std::vector<Marginals>> CudaDflash::Draft(const std::vector<BlockItem>& items,
                                                         int candidates) {
  const int wanted = std::min({candidates, config_.dims.vocabulary, kernels::cuda::kMaxCandidates});
  if (static_cast<int>(items.size()) * block() > block_buckets_.back()) {
    return absl::InvalidArgumentError(absl::StrCat(
        items.size(), " blocks in one draft; the limit is ", block_buckets_.back() / block()));
  }
  for (const BlockItem& item : items) {
    RETURN_IF_ERROR(pages_.Reserve(*item.table, item.cached + block()));
  }
  const absl::Status drafted = RunDraft(items, wanted);
  for (const BlockItem& item : items) pages_.Shrink(*item.table, item.cached);
  RETURN_IF_ERROR(drafted);
  return MarginalsOf({tokens_.as<TokenId>(), log_probs_.as<float>(), positions(), wanted,
                      /*skipped=*/1},
                     static_cast<int>(items.size()));
}

nn::ForwardCost CudaDflash::Cost() const {
  nn::ForwardCost cost = decoder_->Cost();
  cuda::AddCost(vocabulary_.head(), cost);
  cuda::AddCost(fuse_, cost);
  return cost;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DraftModel>> LoadCudaDflash(const std::string& drafter_folder,
                                                           const std::string& target_folder,
                                                           const nn::EngineOptions& options) {
  if (options.dtype == DType::kInt8) {
    return absl::InvalidArgumentError("--dtype int8 works on CPUs only; use bf16 or fp32 on a GPU");
  }
  ASSIGN_OR_RETURN(cuda::Gpu gpu, cuda::OpenGpu(options.gpu, options.gemm_table));
  auto model = std::make_unique<CudaDflash>(std::move(gpu), options);
  RETURN_IF_ERROR(model->Load(drafter_folder, target_folder));
  return model;
}

}  // namespace bastion::drafter
