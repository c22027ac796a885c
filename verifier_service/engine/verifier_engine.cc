#include "verifier_service/engine/verifier_engine.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "verifier_service/engine/audit.h"
#include "verifier_service/engine/sequence_table.h"
#include "verifier_service/model/cpu_target.h"
#include "verifier_service/model/target.h"
#include "verifier_service/verify/spine_first.h"

namespace bastion::verifier {
namespace {

int MaxDepth(const DraftTree& tree) {
  int depth = 0;
  for (NodeIndex i = 0; i < tree.rows(); ++i) depth = std::max(depth, tree.depth(i));
  return depth;
}

std::vector<int> Depths(const DraftTree& tree) {
  std::vector<int> depths(tree.rows());
  for (NodeIndex i = 0; i < tree.rows(); ++i) depths[i] = tree.depth(i);
  return depths;
}

// An item of the forest that is part of the forward.
struct Entry {
  const VerifyItem* item = nullptr;
  Sequence* sequence = nullptr;
  VerifyOutcome* outcome = nullptr;
  int first_row = 0;
  std::optional<SpineFirst> reordered;  // Set if the item's tree is not in spine-first order.

  [[nodiscard]] const DraftTree& tree() const {
    return reordered.has_value() ? reordered->tree : item->tree;
  }
  [[nodiscard]] TreeRows Rows() const {
    return {&tree(),         item->cached, first_row, &sequence->sampling, &sequence->history,
            &sequence->table};
  }
  // Converts the path of `acceptance` to node indices of the item's own tree.
  [[nodiscard]] Acceptance ToItemIndices(Acceptance acceptance) const {
    if (!reordered.has_value()) return acceptance;
    for (NodeIndex& node : acceptance.path) node = reordered->nodes[node];
    return acceptance;
  }
};

class Engine final : public VerifierEngine {
 public:
  Engine(const VerifierOptions& options, std::unique_ptr<Target> target);

  const TargetInfo& info() const override { return info_; }
  absl::Status SetFeatureLayers(const std::vector<int>& layers) override;
  absl::Status Open(SequenceId sequence, const SamplingParams& sampling) override;
  absl::StatusOr<TimingTrace> Prefill(const PrefillItem& item) override;
  absl::StatusOr<VerifyResult> Verify(const Forest& forest) override;
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
  [[nodiscard]] absl::Status CheckRoom(const Sequence& sequence, Position cached, int last_depth);
  [[nodiscard]] absl::Status PrefillChunk(Sequence& sequence, const std::vector<TokenId>& tokens);
  [[nodiscard]] absl::StatusOr<Sequence*> Admit(const VerifyItem& item);
  [[nodiscard]] nn::RowBatch LayOut(const Forest& forest, std::vector<Entry>& entries,
                                    VerifyResult& result);
  // Runs one forward over `batch`, which holds the rows of `entries`.
  void VerifyBatch(const nn::RowBatch& batch, const std::vector<Entry>& entries,
                   VerifyResult& result);
  void Commit(const Entry& entry);

  VerifierOptions options_;
  std::unique_ptr<Target> target_;
  Audit audit_;
  SequenceTable sequences_;
  FeatureStore features_;
  std::vector<int> feature_layers_;
  TargetInfo info_;
};

Engine::Engine(const VerifierOptions& options, std::unique_ptr<Target> target)
    : options_(options),
      target_(std::move(target)),
      audit_(options.audit, target_.get()),
      sequences_(target_->pages(), options.max_sequences),
      features_(target_->feature_type(), options.feature_bytes, target_->feature_ring()) {
  const hub::ModelConfig& config = target_->config();
  const std::filesystem::path folder = std::filesystem::path(options.target_folder) / "";
  info_.model = folder.parent_path().filename().string();
  info_.device = absl::StrCat(target_->DescribeDevice(), ", ", Name(options.engine.dtype));
  info_.dims = config.dims;
  info_.dims.bytes_per_element = static_cast<int>(BytesPerElement(options.engine.dtype));
  info_.peaks = target_->MeasurePeaks();
  info_.max_context = config.max_positions;
  info_.max_rows = options.max_rows;
}

absl::Status Engine::SetFeatureLayers(const std::vector<int>& layers) {
  for (const int layer : layers) {
    if (layer < 0 || layer >= target_->config().dims.layers) {
      return absl::InvalidArgumentError(absl::StrCat("the drafter requested features of layer ",
                                                     layer, ", but the target has layers 0 to ",
                                                     target_->config().dims.layers - 1));
    }
  }
  if (layers != feature_layers_ && !feature_layers_.empty() && sequences_.size() > 0) {
    return absl::FailedPreconditionError(
        "sequences of another drafter are open; close them before changing the feature layers");
  }
  feature_layers_ = layers;
  target_->SetFeatureLayers(layers);
  return absl::OkStatus();
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

absl::Status Engine::CheckRoom(const Sequence& sequence, Position cached, int last_depth) {
  if (cached != sequence.committed) {
    return absl::FailedPreconditionError(absl::StrCat("sequence ", sequence.id.session, ": ",
                                                      sequence.committed,
                                                      " tokens are committed, not ", cached));
  }
  if (cached + last_depth >= info_.max_context) {
    return absl::OutOfRangeError(absl::StrCat("sequence ", sequence.id.session, ": position ",
                                              cached + last_depth, " is past the context of ",
                                              info_.max_context, " tokens"));
  }
  return absl::OkStatus();
}

absl::StatusOr<TimingTrace> Engine::Prefill(const PrefillItem& item) {
  TimingTrace trace;
  if (item.tokens.empty()) return trace;
  ASSIGN_OR_RETURN(Sequence * sequence, sequences_.Find(item.sequence));
  const int count = static_cast<int>(item.tokens.size());
  RETURN_IF_ERROR(CheckRoom(*sequence, item.cached, count - 1));
  for (const TokenId token : item.tokens) {
    if (token < 0 || token >= info_.dims.vocabulary) {
      return absl::InvalidArgumentError(absl::StrCat(
          "prompt token ", token, " is outside the vocabulary of ", info_.dims.vocabulary));
    }
  }
  StopWatch watch;
  trace.rows = count;
  trace.contexts = {item.cached};
  for (int begin = 0; begin < count; begin += options_.prefill_chunk) {
    const int end = std::min(begin + options_.prefill_chunk, count);
    RETURN_IF_ERROR(
        PrefillChunk(*sequence, {item.tokens.begin() + begin, item.tokens.begin() + end}));
  }
  trace.forward = watch.Lap();
  return trace;
}

absl::Status Engine::PrefillChunk(Sequence& sequence, const std::vector<TokenId>& tokens) {
  const int count = static_cast<int>(tokens.size());
  RETURN_IF_ERROR(target_->pages().Reserve(sequence.table, sequence.committed + count));
  nn::RowBatch batch;
  batch.AddRun({&sequence.table, sequence.committed, kernels::RowMask::kCausal}, tokens);
  RETURN_IF_ERROR(target_->Prefill(batch));
  features_.Append(sequence.id, target_->KeptFeatures(0), kNoToken, target_->KeptRingPosition(0));
  for (const TokenId token : tokens) sequence.Commit(token);
  return absl::OkStatus();
}

absl::StatusOr<Sequence*> Engine::Admit(const VerifyItem& item) {
  ASSIGN_OR_RETURN(Sequence * sequence, sequences_.Find(item.sequence));
  RETURN_IF_ERROR(item.tree.Validate(info_.dims.vocabulary));
  RETURN_IF_ERROR(CheckRoom(*sequence, item.cached, MaxDepth(item.tree)));
  RETURN_IF_ERROR(target_->pages().Reserve(sequence->table, item.cached + item.tree.rows()));
  return sequence;
}

nn::RowBatch Engine::LayOut(const Forest& forest, std::vector<Entry>& entries,
                            VerifyResult& result) {
  nn::RowBatch batch;
  absl::flat_hash_set<uint64_t> seen;
  result.outcomes.resize(forest.size());
  for (size_t i = 0; i < forest.size(); ++i) {
    VerifyOutcome& outcome = result.outcomes[i];
    if (!seen.insert(forest[i].sequence.session).second) {
      outcome.status = absl::InvalidArgumentError(
          absl::StrCat("sequence ", forest[i].sequence.session, " occurs twice in one forest"));
      continue;
    }
    absl::StatusOr<Sequence*> sequence = Admit(forest[i]);
    outcome.status = sequence.status();
    if (!sequence.ok()) continue;
    entries.push_back(
        {&forest[i], *sequence, &outcome, batch.rows(), PutSpineFirst(forest[i].tree)});
    const DraftTree& tree = entries.back().tree();
    result.trace.contexts.push_back(forest[i].cached);
    const nn::RowSpan span = {&(*sequence)->table, forest[i].cached, kernels::RowMask::kCausal};
    if (tree.IsChain()) {
      batch.AddRun(span, tree.tokens());
    } else {
      batch.AddTree(span, tree.tokens(), Depths(tree), tree.AncestorBits());
    }
  }
  return batch;
}

void Engine::Commit(const Entry& entry) {
  entry.sequence->Commit(entry.item->tree.token(0));
  for (const NodeIndex node : entry.outcome->acceptance.path) {
    entry.sequence->Commit(entry.item->tree.token(node));
  }
  target_->pages().Shrink(entry.sequence->table, entry.sequence->committed);
}

void Engine::VerifyBatch(const nn::RowBatch& batch, const std::vector<Entry>& entries,
                         VerifyResult& result) {
  std::vector<TreeRows> trees;
  trees.reserve(entries.size());
  for (const Entry& entry : entries) trees.push_back(entry.Rows());
  std::vector<absl::StatusOr<Acceptance>> outcomes = target_->Verify(batch, trees, result.trace);
  StopWatch watch;
  for (size_t i = 0; i < entries.size(); ++i) {
    const Entry& entry = entries[i];
    entry.outcome->status = outcomes[i].status();
    if (!outcomes[i].ok()) continue;
    entry.outcome->acceptance = entry.ToItemIndices(*std::move(outcomes[i]));
    Commit(entry);
    result.trace.commit += watch.Lap();
    const int index = static_cast<int>(i);
    features_.Append(entry.item->sequence, target_->KeptFeatures(index),
                     entry.outcome->acceptance.next, target_->KeptRingPosition(index));
    result.trace.feature_export += watch.Lap();
  }
}

absl::StatusOr<VerifyResult> Engine::Verify(const Forest& forest) {
  target_->WakeUp();
  int rows = 0;
  for (const VerifyItem& item : forest) rows += item.tree.rows();
  if (rows > info_.max_rows) {
    return absl::InvalidArgumentError(absl::StrCat(rows, " rows in one verify call; the limit is ",
                                                   info_.max_rows, " (--max_rows)"));
  }
  VerifyResult result;
  StopWatch watch;
  std::vector<Entry> entries;
  const nn::RowBatch batch = LayOut(forest, entries, result);
  result.trace.rows = batch.rows();
  result.trace.layout = watch.Lap();
  if (batch.rows() == 0) return result;
  VerifyBatch(batch, entries, result);
  if (audit_.SelectNextCycle()) {
    watch.Lap();
    for (const Entry& entry : entries) {
      if (!entry.outcome->status.ok()) continue;
      audit_.Check(*entry.item, entry.outcome->acceptance, *entry.sequence);
    }
    result.trace.audit = watch.Lap();
  }
  result.audit = audit_.counts();
  return result;
}

}  // namespace

absl::StatusOr<std::unique_ptr<VerifierEngine>> VerifierEngine::Create(
    const VerifierOptions& options) {
  const TargetLoader load = options.load_target == nullptr ? LoadCpuTarget : options.load_target;
  nn::EngineOptions engine = options.engine;
  engine.max_rows = std::max(options.max_rows, options.prefill_chunk);
  engine.max_sequences = options.max_sequences;
  ASSIGN_OR_RETURN(auto target, load(options.target_folder, engine));
  return std::make_unique<Engine>(options, std::move(target));
}

}  // namespace bastion::verifier
