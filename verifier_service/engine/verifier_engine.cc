#include "verifier_service/engine/verifier_engine.h"

#include <filesystem>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/hub/checkpoint.h"
#include "common/stages/stages.h"
#include "engine/model/prefix_cache.h"
#include "verifier_service/engine/audit.h"
#include "verifier_service/engine/call_layout.h"
#include "verifier_service/engine/sequence_table.h"
#include "verifier_service/model/target.h"
#include "verifier_service/model/target_model.h"

namespace bastion::verifier {
namespace {

static_assert(FeatureStore::kBlockRows == kernels::kPageTokens);

// The status of the items of a forward that failed with `status`. RESOURCE_EXHAUSTED would mean
// that the KV cache lacks pages for the item, so clients would wait for pages and send it again.
absl::Status ItemError(const absl::Status& status) {
  return absl::IsResourceExhausted(status) ? absl::InternalError(status.message()) : status;
}

class Engine final : public VerifierEngine {
 public:
  Engine(const VerifierOptions& options, std::unique_ptr<Target> target, std::string identity);

  const TargetInfo& info() const override { return info_; }
  absl::Status SetFeatureLayers(const std::vector<int>& layers) override;
  absl::Status Open(SequenceId sequence, const SamplingParams& sampling) override;
  absl::StatusOr<int> ReusePrefix(const PrefixItem& item) override;
  absl::StatusOr<VerifyResult> Verify(const Forest& forest,
                                      absl::Span<const PrefillItem> prompts) override;
  void Close(SequenceId sequence) override;
  nn::ForwardCost cost() const override { return target_->Cost(); }
  FeatureStore& features() override { return features_; }
  std::shared_ptr<const wire::DeviceRingWriter> feature_ring() const override {
    return target_->feature_ring();
  }
  int live_sequences() const override { return sequences_.size(); }
  int free_kv_tokens() const override {
    return target_->pages().free_pages() * kernels::kPageTokens;
  }

 private:
  // INVALID_ARGUMENT if the rows of a call exceed the limit.
  [[nodiscard]] absl::Status CheckRows(const Forest& forest,
                                       absl::Span<const PrefillItem> prompts) const;
  // Runs the forward of `layout` and commits its trees and prompts.
  void Run(const CallLayout& layout, VerifyResult& result);
  void CommitTree(const TreeEntry& entry, Acceptance acceptance, int index, TimingTrace& trace);
  void CommitPrompt(const PromptEntry& entry, int index, TimingTrace& trace);
  // Stores the features that the target kept at `index`. Drops cached prefixes to make room,
  // and after them the longest histories.
  void StoreFeatures(SequenceId sequence, TokenId next, int index);
  // Drops the longest history of features, and frees its memory. False if there is none.
  bool DropLongestHistory();
  // Lets other sequences reuse the pages that `sequence` has filled.
  void CachePages(Sequence& sequence);

  VerifierOptions options_;
  std::unique_ptr<Target> target_;
  Audit audit_;
  SequenceTable sequences_;
  FeatureStore features_;
  // Every cached page has its features in features_, if there are feature layers.
  nn::PrefixCache prefixes_;
  std::vector<int> feature_layers_;
  TargetInfo info_;
};

Engine::Engine(const VerifierOptions& options, std::unique_ptr<Target> target, std::string identity)
    : options_(options),
      target_(std::move(target)),
      audit_(options.audit, target_.get()),
      sequences_(target_->pages(), options.max_sequences),
      features_(target_->feature_type(), options.feature_bytes, target_->feature_ring()),
      prefixes_(&target_->pages(), [this](int32_t page) { features_.Forget(page); }) {
  const hub::ModelConfig& config = target_->config();
  const std::filesystem::path folder = std::filesystem::path(options.target_folder) / "";
  info_.model = folder.parent_path().filename().string();
  const nn::Formats& formats = options.engine.formats;
  info_.device = absl::StrCat(target_->device().Describe(), ", ", nn::Describe(formats));
  info_.on_gpu = !target_->device().on_host();
  // A calibration with another window is one of another device.
  const nn::StreamingWindow& streaming = options.engine.streaming;
  if (streaming.on()) {
    absl::StrAppend(&info_.device, ", ", streaming.sinks, " attention sinks, window ",
                    streaming.tokens);
  }
  info_.dims = config.dims;
  info_.dims.bytes_per_weight = BytesPerWeight(formats.weights);
  const auto state_bytes = static_cast<int>(Bytes(formats.activations, 1));
  if (state_bytes != info_.dims.bytes_per_weight) info_.dims.state_bytes_per_element = state_bytes;
  info_.peaks = target_->MeasurePeaks();
  info_.max_context = config.max_positions;
  info_.max_rows = options.max_rows;
  info_.kv_tokens = target_->pages().total_pages() * kernels::kPageTokens;
  info_.page_tokens = kernels::kPageTokens;
  info_.identity = std::move(identity);
  const std::string sums = target_->device().DescribeSums(formats);
  if (!sums.empty()) absl::StrAppend(&info_.identity, "-", sums);
  info_.takes_masks = true;
}

absl::Status Engine::SetFeatureLayers(const std::vector<int>& layers) {
  absl::flat_hash_set<int> seen;
  for (const int layer : layers) {
    if (!seen.insert(layer).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("the drafter requested features of layer ", layer, " twice"));
    }
    if (layer < 0 || layer >= target_->config().dims.layers) {
      return absl::InvalidArgumentError(absl::StrCat("the drafter requested features of layer ",
                                                     layer, ", but the target has layers 0 to ",
                                                     target_->config().dims.layers - 1));
    }
  }
  if (layers == feature_layers_) return absl::OkStatus();
  prefixes_.Clear();
  features_.DropAll();
  feature_layers_ = layers;
  const absl::Status set = target_->SetFeatureLayers(layers);
  if (set.ok()) return set;
  // Without room for features, the target goes on without them.
  feature_layers_.clear();
  const absl::Status cleared = target_->SetFeatureLayers({});
  if (!cleared.ok()) LOG(ERROR) << "every forward will fail: " << cleared;
  return set;
}

absl::Status Engine::Open(SequenceId sequence, const SamplingParams& sampling) {
  RETURN_IF_ERROR(sampling.Validate(info_.dims.vocabulary));
  RETURN_IF_ERROR(sequences_.Open(sequence, sampling));
  const int width = static_cast<int>(feature_layers_.size()) * target_->config().dims.hidden;
  features_.Open(sequence, width);
  return absl::OkStatus();
}

void Engine::Close(SequenceId sequence) {
  sequences_.Close(sequence);
  features_.Close(sequence);
}

absl::StatusOr<int> Engine::ReusePrefix(const PrefixItem& item) {
  ASSIGN_OR_RETURN(Sequence * sequence, sequences_.Find(item.sequence));
  if (sequence->committed > 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("sequence ", item.sequence.session, ": ", sequence->committed,
                     " tokens are already committed; a prefix can only begin a sequence"));
  }
  if (!options_.reuse_prefixes || options_.engine.streaming.on()) return 0;
  sequence->prefix = prefixes_.Begin(item.salt);
  const int tokens = prefixes_.Reuse(item.tokens, sequence->table, *sequence->prefix);
  for (int i = 0; i < tokens; ++i) sequence->Commit(item.tokens[i]);
  if (!feature_layers_.empty()) features_.Share(item.sequence, sequence->table.pages);
  return tokens;
}

void Engine::CachePages(Sequence& sequence) {
  if (!sequence.prefix.has_value()) return;
  const bool has_features = !feature_layers_.empty();
  // A sequence whose features were dropped, or that was opened without them, has no use.
  if (has_features && !features_.Rows(sequence.id).ok()) return;
  for (const int index :
       prefixes_.Add(sequence.history.tokens(), sequence.table, *sequence.prefix)) {
    if (has_features) features_.Keep(sequence.id, index, sequence.table.pages[index]);
  }
}

absl::Status Engine::CheckRows(const Forest& forest, absl::Span<const PrefillItem> prompts) const {
  size_t rows = 0;
  for (const VerifyItem& item : forest) rows += item.tree.rows();
  for (const PrefillItem& item : prompts) rows += item.tokens.size();
  if (rows <= static_cast<size_t>(info_.max_rows)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(rows, " rows in one verify call; the limit is ",
                                                 info_.max_rows, " (--max_rows)"));
}

bool Engine::DropLongestHistory() {
  const std::optional<SequenceId> dropped = features_.DropLongest();
  if (!dropped.has_value()) return false;
  const absl::StatusOr<Sequence*> sequence = sequences_.Find(*dropped);
  if (!sequence.ok()) return true;
  // Cached prefixes hold the same blocks. While they do, dropping the history frees nothing.
  for (const int32_t page : (*sequence)->table.pages) {
    if (target_->pages().keeps(page)) target_->pages().Drop(page);
  }
  return true;
}

void Engine::StoreFeatures(SequenceId sequence, TokenId next, int index) {
  const absl::Span<const char> rows = target_->KeptFeatures(index);
  while (!features_.Fits(rows.size()) && (target_->pages().DropOldest() || DropLongestHistory())) {
  }
  features_.Append(sequence, rows, next, target_->KeptRingPosition(index));
}

void Engine::CommitTree(const TreeEntry& entry, Acceptance acceptance, int index,
                        TimingTrace& trace) {
  StopWatch watch;
  entry.outcome->acceptance = entry.ToItemIndices(std::move(acceptance));
  entry.sequence->Commit(entry.item->tree.token(0));
  for (const NodeIndex node : entry.outcome->acceptance.path) {
    entry.sequence->Commit(entry.item->tree.token(node));
  }
  trace.commit += watch.Lap();
  StoreFeatures(entry.item->sequence, entry.outcome->acceptance.next, index);
  CachePages(*entry.sequence);
  trace.feature_export += watch.Lap();
}

void Engine::CommitPrompt(const PromptEntry& entry, int index, TimingTrace& trace) {
  StopWatch watch;
  for (const TokenId token : entry.item->tokens) entry.sequence->Commit(token);
  trace.commit += watch.Lap();
  StoreFeatures(entry.item->sequence, kNoToken, index);
  CachePages(*entry.sequence);
  trace.feature_export += watch.Lap();
}

void Engine::Run(const CallLayout& layout, VerifyResult& result) {
  std::vector<TreeRows> trees;
  trees.reserve(layout.trees().size());
  for (const TreeEntry& entry : layout.trees()) trees.push_back(entry.Rows());
  absl::StatusOr<std::vector<absl::StatusOr<Acceptance>>> outcomes =
      target_->Verify(layout.batch(), trees, result.trace);
  if (!outcomes.ok()) {
    layout.FailAll(ItemError(outcomes.status()));
    return;
  }
  int index = 0;  // Counts the spans of the forward.
  for (absl::StatusOr<Acceptance>& outcome : *outcomes) {
    const TreeEntry& entry = layout.trees()[index];
    entry.outcome->status = outcome.status();
    if (outcome.ok()) CommitTree(entry, *std::move(outcome), index, result.trace);
    ++index;
  }
  for (const PromptEntry& entry : layout.prompts()) CommitPrompt(entry, index++, result.trace);
}

absl::StatusOr<VerifyResult> Engine::Verify(const Forest& forest,
                                            absl::Span<const PrefillItem> prompts) {
  target_->WakeUp();
  RETURN_IF_ERROR(CheckRows(forest, prompts));
  VerifyResult result;
  StopWatch watch;
  CallLayout layout(info_, sequences_, target_->pages());
  layout.Add(forest, prompts, result);
  result.trace.layout = watch.Lap();
  if (layout.batch().rows() > 0) {
    Run(layout, result);
    layout.FreeUnusedPages();
  }
  if (!layout.trees().empty() && audit_.SelectNextCycle()) {
    watch.Lap();
    for (const TreeEntry& entry : layout.trees()) {
      if (!entry.outcome->status.ok()) continue;
      audit_.Check(*entry.item, entry.outcome->acceptance, *entry.sequence);
    }
    result.trace.audit = watch.Lap();
  }
  result.audit = audit_.counts();
  result.free_kv_tokens = free_kv_tokens();
  return result;
}

}  // namespace

absl::StatusOr<TimingTrace> VerifierEngine::Prefill(const PrefillItem& item) {
  return PrefillInChunks(item, info().max_rows,
                         [this](const PrefillItem& prompt) { return Verify({}, {prompt}); });
}

absl::StatusOr<std::unique_ptr<VerifierEngine>> VerifierEngine::Create(
    const VerifierOptions& options) {
  const TargetLoader load = options.load_target == nullptr ? LoadTarget : options.load_target;
  nn::EngineOptions engine = options.engine;
  engine.max_rows = options.max_rows;
  engine.max_sequences = options.max_sequences;
  ASSIGN_OR_RETURN(auto target, load(options.target_folder, engine));
  ASSIGN_OR_RETURN(const auto checkpoint, hub::Checkpoint::Open(options.target_folder));
  ASSIGN_OR_RETURN(std::string identity, checkpoint->Identity());
  return std::make_unique<Engine>(options, std::move(target), std::move(identity));
}

}  // namespace bastion::verifier
