#include "drafter_service/engine/autoregressive_engine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "drafter_service/draft/autoregressive.h"
#include "drafter_service/draft/draft_model.h"
#include "drafter_service/engine/draft_sequences.h"

namespace bastion::drafter {
namespace {

class AutoregressiveEngine final : public DrafterEngine {
 public:
  AutoregressiveEngine(const DrafterOptions& options, std::unique_ptr<AutoregressiveModel> model);

  const DrafterInfo& info() const override { return info_; }
  const std::vector<int>& feature_layers() const override { return no_layers_; }
  nn::ForwardCost cost() const override { return model_->Cost(); }
  absl::StatusOr<std::vector<Draft>> Expand(absl::Span<const Frontier> frontiers) override;
  void FeaturesArrived(SequenceId, Position, TokenId) override {}
  void Close(SequenceId sequence) override { sequences_.Close(sequence); }
  bool has_piece() const override { return sequences_.has_piece(); }
  FeatureRange NextPiece() override { return sequences_.NextPiece(); }
  bool AppendPiece(const FeatureRange& piece, absl::StatusOr<Features> features) override;
  const DraftTrace& last_trace() const override { return trace_; }
  int live_sequences() const override { return sequences_.size(); }

 private:
  // One frontier during Expand.
  struct Expanding {
    const Frontier* frontier;
    DraftSequence* sequence;
    std::vector<int> tree_rows;  // One per path.
    int first_row = 0;           // The batch's row of the first new row of the tree.
  };

  // The forward of one Expand, for all frontiers.
  struct Round {
    nn::RowBatch batch;
    std::vector<Expanding> expanding;
    // One per path: where its marginals go, its row, and how to choose its candidates.
    std::vector<Marginals*> wanted;
    std::vector<int> rows;
    std::vector<kernels::ChoiceRule> rules;
    int candidates = 1;
  };

  [[nodiscard]] absl::Status Check(const Frontier& frontier) const;
  // Checks a frontier of a call, and finds or opens its sequence. `seen` has the sessions so far.
  [[nodiscard]] absl::StatusOr<DraftSequence*> Begin(const Frontier& frontier,
                                                     absl::flat_hash_set<uint64_t>& seen);
  // Computes all context tokens but the last ones, which one more forward can take, and adds the
  // paths to the tree. Returns false if the sequence is behind.
  [[nodiscard]] absl::StatusOr<bool> Prepare(Expanding& one);
  // Adds `count` known tokens to the context.
  [[nodiscard]] absl::Status ExtendContext(DraftSequence& sequence, int count);
  // Adds the sequence's new context and tree rows to `batch`.
  [[nodiscard]] absl::Status AddRows(Expanding& one, nn::RowBatch& batch);
  // Runs the forward of `round`, stores its marginals and begins an empty round.
  [[nodiscard]] absl::Status Run(Round& round);
  // Runs `round` and computes context, if the rows of `one` would be too many for the forward.
  [[nodiscard]] absl::Status MakeRoom(Expanding& one, Round& round);
  // Adds a frontier to `round`. `draft` gets its marginals later, or its error now.
  void AddFrontier(const Frontier& frontier, DraftSequence& sequence, Draft& draft, Round& round);
  void Forget(DraftSequence& sequence, int context);
  void Warn(const absl::Status& error, DraftSequence& sequence) const;

  std::unique_ptr<AutoregressiveModel> model_;
  DraftSequences sequences_;
  DrafterInfo info_;
  const std::vector<int> no_layers_ = {};
  DraftTrace trace_;
};

AutoregressiveEngine::AutoregressiveEngine(const DrafterOptions& options,
                                           std::unique_ptr<AutoregressiveModel> model)
    : model_(std::move(model)),
      sequences_(&model_->pages(),
                 {options.max_sequences, options.reuse_prefixes, options.defer_catch_up}) {
  info_.model = FolderName(options.drafter_folder);
  info_.positions = 1;
  info_.vocabulary = model_->config().dims.vocabulary;
  info_.max_context = model_->config().max_positions - 1;  // The root needs a position, too.
  info_.wants_tokens = true;
  info_.expands_nodes = true;
}

absl::Status AutoregressiveEngine::Check(const Frontier& frontier) const {
  const auto valid = [this](TokenId token) { return token >= 0 && token < info_.vocabulary; };
  bool all_valid = valid(frontier.root) && frontier.candidates > 0 && frontier.committed >= 0;
  for (const auto& path : frontier.paths) {
    all_valid = all_valid && std::all_of(path.begin(), path.end(), valid);
  }
  const auto& tokens = frontier.new_tokens;
  if (all_valid && std::all_of(tokens.begin(), tokens.end(), valid)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "frontier of sequence ", frontier.sequence.session, ": all tokens must be in [0, ",
      info_.vocabulary, "), the number of candidates, ", frontier.candidates,
      ", must be positive, and that of committed ", "tokens, ", frontier.committed,
      ", not negative"));
}

absl::StatusOr<DraftSequence*> AutoregressiveEngine::Begin(const Frontier& frontier,
                                                           absl::flat_hash_set<uint64_t>& seen) {
  RETURN_IF_ERROR(Check(frontier));
  RETURN_IF_ERROR(CheckOccursOnce(frontier, seen));
  return sequences_.FindOrOpen(frontier.sequence);
}

void AutoregressiveEngine::Forget(DraftSequence& sequence, int context) {
  sequence.tree.Clear();
  sequence.context = std::min(sequence.context, context);
  model_->pages().Shrink(sequence.table, sequence.context);
}

absl::StatusOr<bool> AutoregressiveEngine::Prepare(Expanding& one) {
  const Frontier& frontier = *one.frontier;
  DraftSequence& sequence = *one.sequence;
  AddNewTokens(frontier, sequence);
  RETURN_IF_ERROR(CheckContext(frontier, sequence, info_.max_context));
  const bool begins = std::any_of(frontier.paths.begin(), frontier.paths.end(),
                                  [](const auto& path) { return path.empty(); });
  if (begins || !sequence.tree.Is(frontier.committed, frontier.root)) {
    Forget(sequence, frontier.committed);
    if (!begins) {
      return absl::FailedPreconditionError(
          "the nodes of the earlier rounds are not known here (the drafter may have restarted)");
    }
    if (static_cast<Position>(sequence.tokens.size()) < frontier.committed) {
      return absl::AbortedError(absl::StrCat("only ", sequence.tokens.size(), " of ",
                                             frontier.committed, " committed tokens were sent"));
    }
    sequences_.ReusePrefix(frontier.cache_salt, sequence);
    if (sequences_.Defer(sequence, frontier.committed)) return false;
    while (frontier.committed - sequence.context > kContextChunk) {
      RETURN_IF_ERROR(ExtendContext(sequence, kContextChunk));
    }
    sequence.tree.Begin(frontier.committed, frontier.root);
  }
  for (const auto& path : frontier.paths) {
    if (frontier.committed + static_cast<Position>(path.size()) > info_.max_context) {
      return absl::OutOfRangeError(
          absl::StrCat("a path ends at position ", frontier.committed + path.size(),
                       ", but this drafter supports at most ", info_.max_context));
    }
    one.tree_rows.push_back(sequence.tree.Add(path));
  }
  return true;
}

absl::Status AutoregressiveEngine::ExtendContext(DraftSequence& sequence, int count) {
  const Position end = sequence.context + count;
  RETURN_IF_ERROR(model_->pages().Reserve(sequence.table, end));
  nn::RowBatch chunk;
  chunk.AddRun({&sequence.table, sequence.context},
               {sequence.tokens.begin() + sequence.context, sequence.tokens.begin() + end});
  RETURN_IF_ERROR(model_->Forward(chunk));
  trace_.context_tokens += count;
  sequence.context = end;
  return absl::OkStatus();
}

bool AutoregressiveEngine::AppendPiece(const FeatureRange& piece, absl::StatusOr<Features>) {
  DraftSequence* const sequence = sequences_.EndPiece(piece);
  if (sequence == nullptr) return false;
  model_->WakeUp();
  const absl::Status extended = ExtendContext(*sequence, piece.count);
  sequences_.FinishPiece(extended, *sequence);
  if (!extended.ok()) Warn(extended, *sequence);
  return true;
}

absl::Status AutoregressiveEngine::AddRows(Expanding& one, nn::RowBatch& batch) {
  DraftSequence& sequence = *one.sequence;
  const DraftedTree& tree = sequence.tree;
  const Position committed = one.frontier->committed;
  RETURN_IF_ERROR(model_->pages().Reserve(sequence.table, committed + tree.rows()));
  if (sequence.context < committed) {
    trace_.context_tokens += committed - sequence.context;
    batch.AddRun({&sequence.table, sequence.context},
                 {sequence.tokens.begin() + sequence.context, sequence.tokens.begin() + committed});
  }
  one.first_row = batch.rows();
  batch.AddTree({.table = &sequence.table, .cached = committed, .earlier = tree.cached()},
                tree.NewTokens(), tree.NewDepths(), tree.NewAncestors());
  return absl::OkStatus();
}

void AutoregressiveEngine::Warn(const absl::Status& error, DraftSequence& sequence) const {
  if (!std::exchange(sequence.warned, true)) LOG(WARNING) << "no draft: " << error;
}

absl::Status AutoregressiveEngine::MakeRoom(Expanding& one, Round& round) {
  DraftSequence& sequence = *one.sequence;
  const int tree_rows = sequence.tree.rows() - sequence.tree.cached();
  const auto paths = static_cast<int>(one.tree_rows.size());
  if (sequence.tree.rows() > AutoregressiveModel::kTreeRows ||
      std::max(tree_rows, paths) > model_->max_rows()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the tree has ", sequence.tree.rows(), " rows, and the frontier has ",
                     tree_rows, " new ones and ", paths, " paths; the limits are ",
                     AutoregressiveModel::kTreeRows, " and ", model_->max_rows()));
  }
  const auto needed = [&] {
    return round.batch.rows() + tree_rows + one.frontier->committed - sequence.context;
  };
  if (std::max(needed(), static_cast<int>(round.rows.size()) + paths) > model_->max_rows()) {
    RETURN_IF_ERROR(Run(round));
  }
  while (needed() > model_->max_rows()) {
    RETURN_IF_ERROR(ExtendContext(
        sequence, std::min(one.frontier->committed - sequence.context, model_->max_rows())));
  }
  return absl::OkStatus();
}

void AutoregressiveEngine::AddFrontier(const Frontier& frontier, DraftSequence& sequence,
                                       Draft& draft, Round& round) {
  draft.marginals.resize(frontier.paths.size());
  Expanding one = {&frontier, &sequence, {}};
  const absl::StatusOr<bool> prepared = Prepare(one);
  if (prepared.ok() && !*prepared) return;
  absl::Status ready = prepared.status();
  if (ready.ok()) ready = MakeRoom(one, round);
  if (ready.ok()) ready = AddRows(one, round.batch);
  if (absl::IsAborted(ready)) {
    // After this error, the orchestrator sends all tokens.
    Warn(ready, sequence);
    sequences_.Close(frontier.sequence);
    draft = {{}, ready};
    return;
  }
  if (!ready.ok()) {
    Forget(sequence, frontier.committed);
    Warn(ready, sequence);
    return;
  }
  for (size_t p = 0; p < one.tree_rows.size(); ++p) {
    const int row = one.tree_rows[p];
    round.wanted.push_back(&draft.marginals[p]);
    round.rows.push_back(one.first_row + row - sequence.tree.cached());
    round.rules.emplace_back();
    if (frontier.coupled) {
      const Position position = frontier.committed + sequence.tree.depth(row) + 1;
      round.rules.back() = CouplingRule(frontier.sampling, position);
    }
  }
  round.candidates = std::max(round.candidates, frontier.candidates);
  round.expanding.push_back(std::move(one));
}

absl::Status AutoregressiveEngine::Run(Round& round) {
  if (round.expanding.empty()) return absl::OkStatus();
  StopWatch watch;
  ASSIGN_OR_RETURN(std::vector<Marginals> marginals,
                   model_->Predict(round.batch, round.rows, round.rules, round.candidates));
  const absl::Duration elapsed = watch.Lap();
  trace_.candidates += model_->candidates_time();
  trace_.forward += elapsed - model_->candidates_time();
  for (size_t m = 0; m < marginals.size(); ++m) *round.wanted[m] = std::move(marginals[m]);
  for (const Expanding& one : round.expanding) {
    one.sequence->tree.MarkCached();
    one.sequence->context = one.frontier->committed;
    sequences_.KeepPrefix(*one.sequence);
  }
  round = {};
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Draft>> AutoregressiveEngine::Expand(
    absl::Span<const Frontier> frontiers) {
  trace_ = {};
  trace_.drafts = static_cast<int>(frontiers.size());
  StopWatch watch;
  model_->WakeUp();
  std::vector<Draft> drafts(frontiers.size());
  Round round;
  absl::flat_hash_set<uint64_t> seen;
  sequences_.BeginExpand();
  for (size_t i = 0; i < frontiers.size(); ++i) {
    const absl::StatusOr<DraftSequence*> sequence = Begin(frontiers[i], seen);
    drafts[i].status = sequence.status();
    if (sequence.ok()) AddFrontier(frontiers[i], **sequence, drafts[i], round);
  }
  RETURN_IF_ERROR(Run(round));
  trace_.context = watch.Lap() - trace_.forward - trace_.candidates;
  return drafts;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DrafterEngine>> MakeAutoregressiveEngine(
    const DrafterOptions& options, FeatureSource* /*features*/) {
  nn::EngineOptions engine = options.engine;
  engine.max_sequences = options.max_sequences;
  ASSIGN_OR_RETURN(
      auto model, AutoregressiveModel::Load(options.drafter_folder, options.target_folder, engine));
  return std::make_unique<AutoregressiveEngine>(options, std::move(model));
}

}  // namespace bastion::drafter
