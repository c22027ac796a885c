#include "verifier_service/session/verifier_engine.h"

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "verifier_service/commit/kv_compaction.h"
#include "verifier_service/session/audit.h"
#include "verifier_service/session/device_probe.h"
#include "verifier_service/session/sequence_table.h"
#include "verifier_service/verify/accept.h"
#include "verifier_service/verify/forward.h"

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

FeatureType FeatureTypeOf(kernels::DType dtype) {
  return dtype == kernels::DType::kF32 ? FeatureType::kF32 : FeatureType::kBF16;
}

// One item of a forest that takes part in the forward.
struct Entry {
  const VerifyItem* item = nullptr;
  Sequence* sequence = nullptr;
  VerifyOutcome* outcome = nullptr;
  int first_row = 0;

  [[nodiscard]] TreeRows Rows() const {
    return {&item->tree, item->cached, first_row, &sequence->sampling, &sequence->history};
  }
};

class Engine final : public VerifierEngine {
 public:
  Engine(const VerifierOptions& options, std::unique_ptr<TargetModel> model);

  const TargetInfo& info() const override { return info_; }
  absl::Status SetFeatureLayers(const std::vector<int>& layers) override;
  absl::Status Open(SequenceId sequence, const SamplingParams& sampling) override;
  absl::StatusOr<TimingTrace> Prefill(const PrefillItem& item) override;
  absl::StatusOr<VerifyResult> Verify(const Forest& forest) override;
  void Close(SequenceId sequence) override;
  nn::ForwardCost cost() const override { return model_->Cost(); }
  FeatureStore& features() override { return features_; }
  int live_sequences() const override { return sequences_.size(); }
  int free_kv_tokens() const override {
    return model_->cache().free_pages() * kernels::kPageTokens;
  }

 private:
  [[nodiscard]] absl::Status CheckRoom(const Sequence& sequence, Position cached, int last_depth);
  [[nodiscard]] absl::Status PrefillChunk(Sequence& sequence, const std::vector<TokenId>& tokens);
  [[nodiscard]] absl::StatusOr<Sequence*> Admit(const VerifyItem& item);
  [[nodiscard]] nn::RowBatch LayOut(const Forest& forest, std::vector<Entry>& entries,
                                    VerifyResult& result);
  void Accept(std::vector<Entry>& entries, const LogitRows& logits);
  void Commit(std::vector<Entry>& entries);
  void ExportFeatures(const std::vector<Entry>& entries);

  VerifierOptions options_;
  std::unique_ptr<TargetModel> model_;
  Audit audit_;
  SequenceTable sequences_;
  FeatureStore features_;
  std::vector<int> feature_layers_;
  TargetInfo info_;
};

Engine::Engine(const VerifierOptions& options, std::unique_ptr<TargetModel> model)
    : options_(options),
      model_(std::move(model)),
      audit_(options.audit, model_.get()),
      sequences_(model_->cache(), options.max_sequences),
      features_(FeatureTypeOf(options.engine.dtype), options.feature_bytes) {
  const hub::ModelConfig& config = model_->config();
  const std::filesystem::path folder = std::filesystem::path(options.target_folder) / "";
  info_.model = folder.parent_path().filename().string();
  info_.device = absl::StrCat(DescribeDevice(options.engine.device), ", ",
                              kernels::Name(options.engine.dtype));
  info_.dims = config.dims;
  info_.dims.bytes_per_element = static_cast<int>(kernels::BytesPerElement(options.engine.dtype));
  info_.peaks = MeasurePeaks(options.engine.device);
  info_.max_context = config.max_positions;
  info_.max_rows = options.max_rows;
}

absl::Status Engine::SetFeatureLayers(const std::vector<int>& layers) {
  for (const int layer : layers) {
    if (layer < 0 || layer >= model_->config().dims.layers) {
      return absl::InvalidArgumentError(absl::StrCat("the drafter wants features of layer ", layer,
                                                     ", the target has layers 0 to ",
                                                     model_->config().dims.layers - 1));
    }
  }
  if (layers != feature_layers_ && !feature_layers_.empty() && sequences_.size() > 0) {
    return absl::FailedPreconditionError(
        "another drafter's sequences are live: finish them before changing the feature layers");
  }
  feature_layers_ = layers;
  return absl::OkStatus();
}

absl::Status Engine::Open(SequenceId sequence, const SamplingParams& sampling) {
  RETURN_IF_ERROR(sampling.Validate(info_.dims.vocabulary));
  RETURN_IF_ERROR(sequences_.Open(sequence, sampling));
  const int width = static_cast<int>(feature_layers_.size()) * model_->config().dims.hidden;
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
  RETURN_IF_ERROR(model_->cache().Reserve(sequence.table, sequence.committed + count));
  nn::RowBatch batch;
  batch.AddRun({&sequence.table, sequence.committed, kernels::RowMask::kCausal}, tokens);
  model_->Forward(batch, feature_layers_);
  std::vector<int> rows(count);
  std::iota(rows.begin(), rows.end(), 0);
  features_.Append(sequence.id, model_->features(), rows);
  for (const TokenId token : tokens) sequence.Committed(token);
  return absl::OkStatus();
}

absl::StatusOr<Sequence*> Engine::Admit(const VerifyItem& item) {
  ASSIGN_OR_RETURN(Sequence * sequence, sequences_.Find(item.sequence));
  RETURN_IF_ERROR(item.tree.Validate(info_.dims.vocabulary));
  RETURN_IF_ERROR(CheckRoom(*sequence, item.cached, MaxDepth(item.tree)));
  RETURN_IF_ERROR(model_->cache().Reserve(sequence->table, item.cached + item.tree.rows()));
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
          absl::StrCat("sequence ", forest[i].sequence.session, " is twice in one forest"));
      continue;
    }
    absl::StatusOr<Sequence*> sequence = Admit(forest[i]);
    outcome.status = sequence.status();
    if (!sequence.ok()) continue;
    const DraftTree& tree = forest[i].tree;
    entries.push_back({&forest[i], *sequence, &outcome, batch.rows()});
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

void Engine::Accept(std::vector<Entry>& entries, const LogitRows& logits) {
  std::vector<TreeRows> trees;
  for (const Entry& entry : entries) trees.push_back(entry.Rows());
  const std::vector<TokenId> choices = ChooseTokens(model_->device(), logits, trees);
  for (Entry& entry : entries) {
    const absl::Span<const TokenId> own(choices.data() + entry.first_row, entry.item->tree.rows());
    if (std::find(own.begin(), own.end(), -1) != own.end()) {
      entry.outcome->status = absl::DataLossError(
          "the target's logits are NaN: the checkpoint is damaged, or overflows in this dtype");
      continue;
    }
    Acceptance& acceptance = entry.outcome->acceptance;
    acceptance = verifier::Accept(entry.item->tree, own);
    if (entry.sequence->sampling.logprobs) {
      acceptance.logprobs = LogprobsOf(model_->device(), logits, entry.Rows(), acceptance);
    }
  }
  entries.erase(std::remove_if(entries.begin(), entries.end(),
                               [](const Entry& entry) { return !entry.outcome->status.ok(); }),
                entries.end());
}

void Engine::Commit(std::vector<Entry>& entries) {
  KvMoves moves;
  for (const Entry& entry : entries) {
    moves.Add(entry.sequence->table, entry.item->cached, entry.outcome->acceptance.path);
  }
  CompactKv(model_->device(), model_->cache(), info_.dims.layers, moves);
  for (Entry& entry : entries) {
    entry.sequence->Committed(entry.item->tree.token(0));
    for (const NodeIndex node : entry.outcome->acceptance.path) {
      entry.sequence->Committed(entry.item->tree.token(node));
    }
    model_->cache().Shrink(entry.sequence->table, entry.sequence->committed);
  }
}

void Engine::ExportFeatures(const std::vector<Entry>& entries) {
  for (const Entry& entry : entries) {
    std::vector<int> rows = {entry.first_row};
    for (const NodeIndex node : entry.outcome->acceptance.path) {
      rows.push_back(entry.first_row + node);
    }
    features_.Append(entry.item->sequence, model_->features(), rows,
                     entry.outcome->acceptance.next);
  }
}

absl::StatusOr<VerifyResult> Engine::Verify(const Forest& forest) {
  model_->device().pool->Wake();
  int rows = 0;
  for (const VerifyItem& item : forest) rows += item.tree.rows();
  if (rows > info_.max_rows) {
    return absl::InvalidArgumentError(
        absl::StrCat(rows, " rows in one verify call, at most ", info_.max_rows, " are taken"));
  }
  VerifyResult result;
  StopWatch watch;
  std::vector<Entry> entries;
  const nn::RowBatch batch = LayOut(forest, entries, result);
  result.trace.rows = batch.rows();
  result.trace.layout = watch.Lap();
  if (batch.rows() == 0) return result;
  model_->Forward(batch, feature_layers_);
  const LogitRows logits = model_->Logits();
  result.trace.forward = watch.Lap();
  Accept(entries, logits);
  result.trace.accept = watch.Lap();
  Commit(entries);
  result.trace.commit = watch.Lap();
  ExportFeatures(entries);
  result.trace.feature_export = watch.Lap();
  if (audit_.Draw()) {
    for (const Entry& entry : entries) {
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
  ASSIGN_OR_RETURN(auto model, TargetModel::Load(options.target_folder, options.engine));
  return std::make_unique<Engine>(options, std::move(model));
}

}  // namespace bastion::verifier
