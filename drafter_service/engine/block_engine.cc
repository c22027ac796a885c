#include "drafter_service/engine/block_engine.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/engine_progress.h"
#include "common/base/status.h"
#include "drafter_service/engine/context_catch_up.h"
#include "drafter_service/engine/draft_ahead.h"
#include "drafter_service/engine/draft_sequences.h"
#include "drafter_service/engine/patient_features.h"

namespace bastion::drafter {
namespace {

// A frontier that waits for its draft.
struct Wanted {
  const Frontier* frontier;
  DraftSequence* sequence;
  Draft* draft;
};

// The blocks of a forward, and where their marginals go.
struct Blocks {
  std::vector<BlockItem> items;
  std::vector<Marginals*> marginals;
  int candidates = 1;
};

class BlockEngine final : public DrafterEngine {
 public:
  BlockEngine(const DrafterOptions& options, FeatureSource* features,
              std::unique_ptr<DraftModel> model);

  const DrafterInfo& info() const override { return info_; }
  const std::vector<int>& feature_layers() const override {
    return model_->config().drafter.dflash.target_layer_ids;
  }
  const DeviceReader* device_reader() const override { return model_->device_reader(); }
  nn::ForwardCost cost() const override { return model_->Cost(); }
  absl::StatusOr<std::vector<Draft>> Expand(absl::Span<const Frontier> frontiers) override;
  void FeaturesArrived(SequenceId sequence, Position committed, TokenId root) override;
  void Close(SequenceId sequence) override;
  bool has_piece() const override { return sequences_.has_piece(); }
  FeatureRange NextPiece() override;
  absl::StatusOr<Features> ReadPiece(const FeatureRange& piece) override {
    return features_.source().Read(piece, options_.feature_timeout);
  }
  bool AppendPiece(const FeatureRange& piece, absl::StatusOr<Features> features) override;
  const DraftTrace& last_trace() const override { return trace_; }
  int live_sequences() const override { return sequences_.size(); }

 private:
  // Checks a frontier of a call, and finds or opens its sequence. `seen` has the sessions so far.
  [[nodiscard]] absl::StatusOr<DraftSequence*> Begin(const Frontier& frontier,
                                                     absl::flat_hash_set<uint64_t>& seen);
  [[nodiscard]] absl::StatusOr<std::vector<Draft>> MakeDrafts(absl::Span<const Frontier> frontiers);
  // Begins to extend the context to frontier.committed tokens. Returns false if the sequence is
  // behind.
  [[nodiscard]] absl::StatusOr<bool> BeginCatchUp(const Frontier& frontier,
                                                  DraftSequence& sequence);
  // Extends the contexts of `wanted`. Those that fail get no draft.
  void CatchUp(std::vector<Wanted>& wanted);
  // Adds the block of a sequence that has its context, if one of its paths is the root.
  static void AddBlock(const Wanted& wanted, Blocks& blocks);
  // Drafts the blocks in one forward.
  [[nodiscard]] absl::Status RunBlocks(const Blocks& blocks);
  void Warn(const absl::Status& error, DraftSequence& sequence) const;
  // Ends a frontier without a draft. Tells the caller if only the features are missing.
  void Fail(const absl::Status& error, const Wanted& wanted) const;

  DrafterOptions options_;
  PatientFeatures features_;
  std::unique_ptr<DraftModel> model_;
  DraftSequences sequences_;
  DrafterInfo info_;
  DraftAhead ahead_;
  DraftTrace trace_;
  ContextCatchUp catch_up_{model_.get(), &features_, &trace_};
};

BlockEngine::BlockEngine(const DrafterOptions& options, FeatureSource* features,
                         std::unique_ptr<DraftModel> model)
    : options_(options),
      features_(features),
      model_(std::move(model)),
      sequences_(&model_->pages(),
                 {options.max_sequences, options.reuse_prefixes, options.defer_catch_up}) {
  info_.model = FolderName(options.drafter_folder);
  info_.positions = model_->positions();
  info_.vocabulary = model_->config().dims.vocabulary;
  info_.max_context = model_->config().max_positions - model_->config().drafter.dflash.block_size;
  info_.wants_tokens = options.reuse_prefixes && !feature_layers().empty();
}

void BlockEngine::Close(SequenceId sequence) {
  sequences_.Close(sequence);
  ahead_.Forget(sequence);
}

absl::StatusOr<bool> BlockEngine::BeginCatchUp(const Frontier& frontier, DraftSequence& sequence) {
  RETURN_IF_ERROR(CheckContext(frontier, sequence, info_.max_context));
  if (feature_layers().empty()) {
    sequence.context = frontier.committed;
    return true;
  }
  sequences_.ReusePrefix(frontier.cache_salt, sequence);
  return !sequences_.Defer(sequence, frontier.committed);
}

void BlockEngine::CatchUp(std::vector<Wanted>& wanted) {
  if (feature_layers().empty()) return;
  std::vector<ContextCatchUp::Request> requests;
  requests.reserve(wanted.size());
  for (const Wanted& one : wanted) requests.push_back({one.sequence, one.frontier->committed});
  catch_up_.Run(absl::MakeSpan(requests));
  std::vector<Wanted> ready;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (requests[i].status.ok()) {
      sequences_.KeepPrefix(*wanted[i].sequence);
      ready.push_back(wanted[i]);
    } else {
      Fail(requests[i].status, wanted[i]);
    }
  }
  wanted = std::move(ready);
}

FeatureRange BlockEngine::NextPiece() {
  FeatureRange piece = sequences_.NextPiece();
  piece.may_be_on_device = model_->device_reader() != nullptr;
  return piece;
}

bool BlockEngine::AppendPiece(const FeatureRange& piece, absl::StatusOr<Features> features) {
  DraftSequence* const sequence = sequences_.EndPiece(piece);
  if (sequence == nullptr) return false;
  const absl::Status appended =
      features.ok() ? catch_up_.Append(*std::move(features), *sequence) : features.status();
  sequences_.FinishPiece(appended, *sequence);
  // ABORTED: the rows were overwritten in the GPU's ring. The next read gets them as bytes.
  if (!appended.ok() && !absl::IsAborted(appended)) Warn(appended, *sequence);
  return true;
}

void BlockEngine::Warn(const absl::Status& error, DraftSequence& sequence) const {
  if (!std::exchange(sequence.warned, true)) LOG(WARNING) << "no draft: " << error;
}

void BlockEngine::Fail(const absl::Status& error, const Wanted& wanted) const {
  Warn(error, *wanted.sequence);
  if (LacksFeatures(error)) wanted.draft->status = error;
}

absl::StatusOr<DraftSequence*> BlockEngine::Begin(const Frontier& frontier,
                                                  absl::flat_hash_set<uint64_t>& seen) {
  RETURN_IF_ERROR(CheckTokens(frontier, info_.vocabulary));
  RETURN_IF_ERROR(CheckOccursOnce(frontier, seen));
  return sequences_.FindOrOpen(frontier.sequence);
}

absl::StatusOr<std::vector<Draft>> BlockEngine::Expand(absl::Span<const Frontier> frontiers) {
  trace_ = {};
  trace_.drafts = static_cast<int>(frontiers.size());
  features_.BeginCall(options_.feature_timeout);
  ASSIGN_OR_RETURN(std::vector<Draft> drafts, MakeDrafts(frontiers));
  ahead_.PredictNext(frontiers);
  // It may be long until a sequence without a draft has features. The others do not wait for it.
  for (size_t i = 0; i < frontiers.size(); ++i) {
    if (!HasMarginals(drafts[i])) ahead_.Forget(frontiers[i].sequence);
  }
  return drafts;
}

void BlockEngine::FeaturesArrived(SequenceId sequence, Position committed, TokenId root) {
  const std::vector<Frontier> predicted = ahead_.AddArrival(sequence, committed, root);
  if (predicted.empty()) return;
  // All features have arrived. If some are missing nevertheless, this thread may have to receive
  // them.
  features_.BeginCall(absl::ZeroDuration());
  absl::StatusOr<std::vector<Draft>> drafts = MakeDrafts(predicted);
  // An error is dropped here: it will occur again, and be reported, when the draft is requested.
  if (drafts.ok()) ahead_.Keep(predicted, *std::move(drafts));
}

absl::StatusOr<std::vector<Draft>> BlockEngine::MakeDrafts(absl::Span<const Frontier> frontiers) {
  std::vector<Draft> drafts(frontiers.size());
  std::vector<Wanted> wanted;
  absl::flat_hash_set<uint64_t> seen;
  sequences_.BeginExpand();
  for (size_t i = 0; i < frontiers.size(); ++i) {
    const Frontier& frontier = frontiers[i];
    CountProgress();
    const absl::StatusOr<DraftSequence*> opened = Begin(frontier, seen);
    if (!opened.ok()) {
      drafts[i].status = opened.status();
      continue;
    }
    if (options_.reuse_prefixes) AddNewTokens(frontier, **opened);
    if (ahead_.Take(frontier, drafts[i])) {
      ++trace_.ahead;
      continue;
    }
    drafts[i].marginals.resize(frontier.paths.size());
    const Wanted one = {&frontier, *opened, &drafts[i]};
    const absl::StatusOr<bool> begun = BeginCatchUp(frontier, **opened);
    if (!begun.ok()) Fail(begun.status(), one);
    if (begun.ok() && *begun) wanted.push_back(one);
  }
  CatchUp(wanted);
  Blocks blocks;
  for (const Wanted& one : wanted) AddBlock(one, blocks);
  RETURN_IF_ERROR(RunBlocks(blocks));
  return drafts;
}

void BlockEngine::AddBlock(const Wanted& wanted, Blocks& blocks) {
  const Frontier& frontier = *wanted.frontier;
  // Block diffusion drafts from the root only; a deeper node would need its own context.
  const auto root = std::find_if(frontier.paths.begin(), frontier.paths.end(),
                                 [](const auto& path) { return path.empty(); });
  if (root == frontier.paths.end()) return;
  blocks.items.push_back({&wanted.sequence->table, wanted.sequence->context, frontier.root});
  if (frontier.coupled) blocks.items.back().coupling = frontier.sampling;
  blocks.marginals.push_back(&wanted.draft->marginals[root - frontier.paths.begin()]);
  blocks.candidates = std::max(blocks.candidates, frontier.candidates);
}

absl::Status BlockEngine::RunBlocks(const Blocks& blocks) {
  if (blocks.items.empty()) return absl::OkStatus();
  StopWatch watch;
  ASSIGN_OR_RETURN(std::vector<Marginals> marginals,
                   model_->Draft(blocks.items, blocks.candidates));
  trace_.candidates = model_->candidates_time();
  trace_.forward = watch.Lap() - trace_.candidates;
  for (size_t b = 0; b < marginals.size(); ++b) *blocks.marginals[b] = std::move(marginals[b]);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<DrafterEngine>> MakeBlockEngine(const DrafterOptions& options,
                                                               FeatureSource* features,
                                                               LoadDraftModel load) {
  nn::EngineOptions engine = options.engine;
  engine.max_sequences = options.max_sequences;
  engine.max_rows = kContextChunk;
  ASSIGN_OR_RETURN(auto model, load(options.drafter_folder, options.target_folder, engine));
  return std::make_unique<BlockEngine>(options, features, std::move(model));
}

}  // namespace bastion::drafter
