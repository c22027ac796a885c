#include "drafter_service/engine/autoregressive_engine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "drafter_service/engine/draft_sequences.h"
#include "drafter_service/engine/node_round.h"
#include "drafter_service/engine/patient_features.h"

namespace bastion::drafter {
namespace {

class AutoregressiveEngine final : public DrafterEngine {
 public:
  AutoregressiveEngine(const DrafterOptions& options, FeatureSource* features,
                       std::unique_ptr<NodeModel> model);

  const DrafterInfo& info() const override { return info_; }
  const std::vector<int>& feature_layers() const override { return model_->feature_layers(); }
  nn::ForwardCost cost() const override { return model_->Cost(); }
  absl::StatusOr<std::vector<Draft>> Expand(absl::Span<const Frontier> frontiers) override;
  void FeaturesArrived(SequenceId, Position, TokenId) override {}
  void Close(SequenceId sequence) override { sequences_.Close(sequence); }
  bool has_piece() const override { return sequences_.has_piece(); }
  FeatureRange NextPiece() override { return sequences_.NextPiece(); }
  absl::StatusOr<Features> ReadPiece(const FeatureRange& piece) override {
    return reads_features() ? features_.source().Read(piece, feature_timeout_) : Features();
  }
  bool AppendPiece(const FeatureRange& piece, absl::StatusOr<Features> features) override;
  const DraftTrace& last_trace() const override { return trace_; }
  int live_sequences() const override { return sequences_.size(); }

 private:
  [[nodiscard]] bool reads_features() const { return !model_->feature_layers().empty(); }
  [[nodiscard]] int positions() const { return model_->positions(); }  // P
  [[nodiscard]] bool keeps_context() const { return model_->rows_per_token() > 0; }
  // The rows in the cache after `context` tokens and `nodes` nodes.
  [[nodiscard]] int rows_of(Position context, int nodes) const {
    return context * model_->rows_per_token() + nodes * positions();
  }
  // Tokens of the context, before the root.
  [[nodiscard]] int context_of(const Frontier& frontier) const {
    return frontier.committed - model_->first_token();
  }
  // Checks a frontier of a call, and finds or opens its sequence. `seen` has the sessions so far.
  [[nodiscard]] absl::StatusOr<DraftSequence*> Begin(const Frontier& frontier,
                                                     absl::flat_hash_set<uint64_t>& seen);
  // Begins the tree if it has to, and adds the paths to it. Returns false if the sequence is
  // behind, or has no row yet.
  [[nodiscard]] absl::StatusOr<bool> Prepare(Expanding& one);
  // The part of Prepare for a new tree.
  [[nodiscard]] absl::StatusOr<bool> BeginTree(Expanding& one);
  // Reads the features up to the root's row. Computes context if they are many.
  [[nodiscard]] absl::Status ReadFeatures(const Frontier& frontier, DraftSequence& sequence);
  // Adds `count` tokens to the context. If the model reads features, the sequence holds them.
  [[nodiscard]] absl::Status ExtendContext(DraftSequence& sequence, int count);
  // Adds the next nodes of the frontier's tree to `round`, after the context that lacks.
  [[nodiscard]] absl::Status AddLevel(Expanding& one, NodeRound& round);
  // Runs `round` if the rows of `one` would be too many for its forward. Then computes the context
  // that one forward cannot take together with the tree.
  [[nodiscard]] absl::Status MakeRoom(Expanding& one, int end, NodeRound& round);
  // Runs the forward of `round`, stores its marginals and begins an empty round.
  [[nodiscard]] absl::Status Run(NodeRound& round);
  // Runs forwards until the trees of all `open` frontiers are computed.
  [[nodiscard]] absl::Status RunAll(std::vector<Expanding>& open);
  // Notes that the context and the root of a frontier are in the cache.
  void Complete(Expanding& one);
  // Ends the draft of a frontier.
  void Fail(const absl::Status& error, Expanding& one);
  void Forget(DraftSequence& sequence, int context);
  void Warn(const absl::Status& error, DraftSequence& sequence) const;

  const absl::Duration feature_timeout_;
  PatientFeatures features_;
  std::unique_ptr<NodeModel> model_;
  DraftSequences sequences_;
  DrafterInfo info_;
  DraftTrace trace_;
};

AutoregressiveEngine::AutoregressiveEngine(const DrafterOptions& options, FeatureSource* features,
                                           std::unique_ptr<NodeModel> model)
    : feature_timeout_(options.feature_timeout),
      features_(features),
      model_(std::move(model)),
      sequences_(&model_->pages(),
                 {options.max_sequences, options.reuse_prefixes, options.defer_catch_up,
                  model_->first_token(), model_->rows_per_token()}) {
  info_.model = FolderName(options.drafter_folder);
  info_.positions = positions();
  info_.vocabulary = model_->config().dims.vocabulary;
  // The rows of the root need positions, too.
  info_.max_context = model_->config().max_positions - positions();
  info_.wants_tokens = keeps_context();
  info_.expands_nodes = model_->expands_nodes();
}

absl::StatusOr<DraftSequence*> AutoregressiveEngine::Begin(const Frontier& frontier,
                                                           absl::flat_hash_set<uint64_t>& seen) {
  RETURN_IF_ERROR(CheckTokens(frontier, info_.vocabulary));
  RETURN_IF_ERROR(CheckOccursOnce(frontier, seen));
  return sequences_.FindOrOpen(frontier.sequence);
}

void AutoregressiveEngine::Forget(DraftSequence& sequence, int context) {
  sequence.tree.Clear();
  sequence.states.clear();
  sequence.context = std::min(sequence.context, context);
  sequences_.ShrinkToContext(sequence);
}

absl::StatusOr<bool> AutoregressiveEngine::Prepare(Expanding& one) {
  const Frontier& frontier = *one.frontier;
  DraftSequence& sequence = *one.sequence;
  AddNewTokens(frontier, sequence);
  RETURN_IF_ERROR(CheckContext(frontier, sequence, info_.max_context));
  const bool begins = std::any_of(frontier.paths.begin(), frontier.paths.end(),
                                  [](const auto& path) { return path.empty(); });
  if (!begins && !model_->expands_nodes()) return false;
  if (begins || !sequence.tree.Is(frontier.committed, frontier.root)) {
    Forget(sequence, frontier.committed);
    if (!begins) {
      return absl::FailedPreconditionError(
          "the nodes of the earlier rounds are not known here (the drafter may have restarted)");
    }
    ASSIGN_OR_RETURN(const bool begun, BeginTree(one));
    if (!begun) return false;
  }
  for (const auto& path : frontier.paths) {
    if (frontier.committed + static_cast<Position>(path.size()) > info_.max_context) {
      return absl::OutOfRangeError(
          absl::StrCat("a path ends at position ", frontier.committed + path.size(),
                       ", but this drafter supports at most ", info_.max_context));
    }
  }
  one.nodes.resize(frontier.paths.size());
  one.ResolvePaths();
  return true;
}

absl::StatusOr<bool> AutoregressiveEngine::BeginTree(Expanding& one) {
  const Frontier& frontier = *one.frontier;
  DraftSequence& sequence = *one.sequence;
  if (context_of(frontier) < 0) return false;
  if (!keeps_context()) {
    sequence.context = context_of(frontier);
  } else if (static_cast<Position>(sequence.tokens.size()) < frontier.committed) {
    return absl::AbortedError(absl::StrCat("only ", sequence.tokens.size(), " of ",
                                           frontier.committed, " committed tokens were sent"));
  }
  // The root's row is computed again if the cycle before had this root, too.
  sequence.context = std::min(sequence.context, context_of(frontier));
  sequences_.ReusePrefix(frontier.cache_salt, sequence);
  if (sequences_.Defer(sequence, context_of(frontier))) return false;
  if (reads_features()) {
    RETURN_IF_ERROR(ReadFeatures(frontier, sequence));
  }
  sequence.tree.Begin(frontier.committed, frontier.root, positions());
  return true;
}

absl::Status AutoregressiveEngine::ReadFeatures(const Frontier& frontier, DraftSequence& sequence) {
  HeldFeatures& held = sequence.held;
  held.KeepFrom(sequence.context);
  while (held.end() < frontier.committed) {
    if (held.end() - sequence.context >= kContextChunk) {
      RETURN_IF_ERROR(ExtendContext(sequence, held.end() - sequence.context));
      held.KeepFrom(sequence.context);
    }
    const int room = kContextChunk - (held.end() - sequence.context);
    const int count = std::min(frontier.committed - held.end(), room);
    ASSIGN_OR_RETURN(Features read, features_.Read({frontier.sequence, held.end(), count}, trace_));
    RETURN_IF_ERROR(held.Append(std::move(read)));
  }
  return absl::OkStatus();
}

absl::Status AutoregressiveEngine::ExtendContext(DraftSequence& sequence, int count) {
  while (count > 0) {
    const int part = std::min(count, model_->max_rows() / model_->rows_per_token());
    const Position end = sequence.context + part;
    RETURN_IF_ERROR(model_->pages().Reserve(sequence.table, rows_of(end, 0)));
    NodeRows rows;
    AddContext(*model_, sequence, end, rows.batch);
    if (reads_features()) {
      rows.features.push_back(
          {sequence.held.Rows(sequence.context, part), model_->rows_per_token()});
    }
    RETURN_IF_ERROR(model_->Forward(rows));
    trace_.context_tokens += part;
    sequence.context = end;
    count -= part;
  }
  return absl::OkStatus();
}

bool AutoregressiveEngine::AppendPiece(const FeatureRange& piece,
                                       absl::StatusOr<Features> features) {
  DraftSequence* const sequence = sequences_.EndPiece(piece);
  if (sequence == nullptr) return false;
  model_->WakeUp();
  int count = piece.count;
  absl::Status extended = features.status();
  if (extended.ok() && reads_features()) {
    count = features->rows();
    sequence->held.KeepFrom(sequence->context);
    extended = sequence->held.Append(*std::move(features));
  }
  if (extended.ok()) extended = ExtendContext(*sequence, count);
  sequences_.FinishPiece(extended, *sequence);
  if (!extended.ok()) Warn(extended, *sequence);
  return true;
}

void AutoregressiveEngine::Warn(const absl::Status& error, DraftSequence& sequence) const {
  if (!std::exchange(sequence.warned, true)) LOG(WARNING) << "no draft: " << error;
}

absl::Status AutoregressiveEngine::MakeRoom(Expanding& one, int end, NodeRound& round) {
  DraftSequence& sequence = *one.sequence;
  const int tree_rows = (end - sequence.tree.cached()) * positions();
  // A row may be wanted by several paths, or by none.
  const int paths = one.root_only ? 1 : static_cast<int>(one.nodes.size());
  const int wanted = std::max(tree_rows, paths * positions());
  if (sequence.tree.rows() > NodeModel::kTreeRows || wanted > model_->max_rows()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the tree has ", sequence.tree.rows(), " rows, and the frontier has ", tree_rows,
        " new ones and ", one.nodes.size(), " paths; the limits are ", NodeModel::kTreeRows,
        " rows of a tree and ", model_->max_rows(), " rows of a round"));
  }
  const int missing = std::max(context_of(*one.frontier) - sequence.context, 0);
  const int own = rows_of(missing, 0) + tree_rows;
  if (std::max(round.rows() + own, round.wanted_rows() + wanted) > model_->max_rows()) {
    RETURN_IF_ERROR(Run(round));
  }
  const int excess = std::max(own - model_->max_rows(), 0);
  if (excess == 0) return absl::OkStatus();
  const int rows = model_->rows_per_token();
  return ExtendContext(sequence, (excess + rows - 1) / rows);
}

absl::Status AutoregressiveEngine::AddLevel(Expanding& one, NodeRound& round) {
  DraftSequence& sequence = *one.sequence;
  const DraftedTree& tree = sequence.tree;
  const int end = model_->state_bytes() > 0 ? tree.EndOfLevel() : tree.nodes();
  const Position context = context_of(*one.frontier);
  RETURN_IF_ERROR(MakeRoom(one, end, round));
  RETURN_IF_ERROR(model_->pages().Reserve(sequence.table, rows_of(context, end)));
  round.Add(one, context, end, trace_.context_tokens);
  return absl::OkStatus();
}

absl::Status AutoregressiveEngine::Run(NodeRound& round) {
  if (round.empty()) return absl::OkStatus();
  StopWatch watch;
  RETURN_IF_ERROR(round.Run());
  trace_.candidates += model_->candidates_time();
  trace_.forward += watch.Lap() - model_->candidates_time();
  round = NodeRound(model_.get());
  return absl::OkStatus();
}

absl::Status AutoregressiveEngine::RunAll(std::vector<Expanding>& open) {
  std::vector<Expanding*> left;
  left.reserve(open.size());
  for (Expanding& one : open) left.push_back(&one);
  while (!left.empty()) {
    NodeRound from_features(model_.get()), from_states(model_.get());
    for (Expanding*& one : left) {
      const bool begins = one->sequence->tree.cached() == 0 || model_->state_bytes() == 0;
      const absl::Status added = AddLevel(*one, begins ? from_features : from_states);
      if (added.ok()) continue;
      Fail(added, *one);
      one = nullptr;
    }
    RETURN_IF_ERROR(Run(from_features));
    RETURN_IF_ERROR(Run(from_states));
    std::erase_if(left, [this](Expanding* one) {
      if (one == nullptr) return true;
      Complete(*one);
      one->ResolvePaths();
      return one->sequence->tree.cached() == one->sequence->tree.nodes();
    });
  }
  return absl::OkStatus();
}

void AutoregressiveEngine::Complete(Expanding& one) {
  DraftSequence& sequence = *one.sequence;
  sequence.context = one.frontier->committed;
  // The root's features, in case its rows are computed again.
  if (reads_features()) sequence.held.KeepFrom(context_of(*one.frontier));
  sequences_.KeepPrefix(sequence);
}

void AutoregressiveEngine::Fail(const absl::Status& error, Expanding& one) {
  Warn(error, *one.sequence);
  if (absl::IsAborted(error)) {
    // After this error, the orchestrator sends all tokens.
    sequences_.Close(one.frontier->sequence);
    *one.draft = {{}, error};
    return;
  }
  Forget(*one.sequence, one.frontier->committed);
  if (LacksFeatures(error)) one.draft->status = error;
}

absl::StatusOr<std::vector<Draft>> AutoregressiveEngine::Expand(
    absl::Span<const Frontier> frontiers) {
  trace_ = {};
  trace_.drafts = static_cast<int>(frontiers.size());
  features_.BeginCall(feature_timeout_);
  StopWatch watch;
  model_->WakeUp();
  std::vector<Draft> drafts(frontiers.size());
  std::vector<Expanding> open;
  absl::flat_hash_set<uint64_t> seen;
  sequences_.BeginExpand();
  for (size_t i = 0; i < frontiers.size(); ++i) {
    const absl::StatusOr<DraftSequence*> sequence = Begin(frontiers[i], seen);
    drafts[i].status = sequence.status();
    if (!sequence.ok()) continue;
    drafts[i].marginals.resize(frontiers[i].paths.size());
    Expanding one = {&frontiers[i], *sequence, &drafts[i]};
    one.root_only = !model_->expands_nodes();
    const absl::StatusOr<bool> prepared = Prepare(one);
    if (!prepared.ok()) Fail(prepared.status(), one);
    if (prepared.ok() && *prepared) open.push_back(std::move(one));
  }
  RETURN_IF_ERROR(RunAll(open));
  trace_.context = watch.Lap() - trace_.features - trace_.forward - trace_.candidates;
  return drafts;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DrafterEngine>> MakeAutoregressiveEngine(
    const DrafterOptions& options, FeatureSource* features, LoadNodeModel load) {
  nn::EngineOptions engine = options.engine;
  engine.max_sequences = options.max_sequences;
  ASSIGN_OR_RETURN(auto model, load(options.drafter_folder, options.target_folder, engine));
  return std::make_unique<AutoregressiveEngine>(options, features, std::move(model));
}

}  // namespace bastion::drafter
