#include "drafter_service/engine/drafter_engine.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/container/node_hash_map.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/nn/prefix_cache.h"
#include "drafter_service/draft/dflash.h"
#include "drafter_service/engine/draft_ahead.h"

namespace bastion::drafter {
namespace {

// Maximum number of feature rows projected in one call. Bounds the memory that a long prompt needs.
constexpr int kContextChunk = 512;

// Adds the tokens of `frontier` that are not in `tokens` yet, unless others before them are
// missing.
void AddNewTokens(const Frontier& frontier, std::vector<TokenId>& tokens) {
  const auto known = static_cast<Position>(tokens.size());
  const auto sent = static_cast<Position>(frontier.new_tokens.size());
  const int added = std::min(frontier.committed - known, sent);
  if (added <= 0 || frontier.committed - sent > known) return;
  tokens.insert(tokens.end(), frontier.new_tokens.end() - added, frontier.new_tokens.end());
}

struct Sequence {
  SequenceId id;
  Position context = 0;  // Tokens whose features are in the cache.
  nn::PageTable table;
  std::vector<TokenId> tokens;  // The first tokens of the sequence, as far as they are known.
  std::optional<nn::PrefixCache::Chain> prefix = {};  // Set if the sequence shares its pages.
  bool warned = false;  // The first failed draft has been logged. Later ones are not.
};

class Engine final : public DrafterEngine {
 public:
  Engine(const DrafterOptions& options, FeatureSource* features, std::unique_ptr<DraftModel> model);

  const DrafterInfo& info() const override { return info_; }
  const std::vector<int>& feature_layers() const override {
    return model_->config().dflash.target_layer_ids;
  }
  const DeviceReader* device_reader() const override { return model_->device_reader(); }
  nn::ForwardCost cost() const override { return model_->Cost(); }
  absl::StatusOr<std::vector<Draft>> Expand(absl::Span<const Frontier> frontiers) override;
  void FeaturesArrived(SequenceId sequence, Position committed, TokenId root) override;
  void Close(SequenceId sequence) override;
  const DraftTrace& last_trace() const override { return trace_; }
  int live_sequences() const override { return static_cast<int>(sequences_.size()); }

 private:
  [[nodiscard]] absl::Status Check(const Frontier& frontier) const;
  [[nodiscard]] absl::StatusOr<Sequence*> FindOrOpen(SequenceId id);
  [[nodiscard]] absl::StatusOr<std::vector<Draft>> MakeDrafts(absl::Span<const Frontier> frontiers);
  // Extends the sequence's context to frontier.committed tokens.
  [[nodiscard]] absl::Status CatchUp(const Frontier& frontier, Sequence& sequence);
  // Begins the context with pages of earlier sequences.
  void ReusePrefix(const std::string& salt, Sequence& sequence);
  // Reads once and appends the rows that were read, which may be only the first rows of `range`.
  // The sequence's context must end where the range begins.
  [[nodiscard]] absl::Status AppendRange(const FeatureRange& range, Sequence& sequence);

  DrafterOptions options_;
  FeatureSource* features_;
  std::unique_ptr<DraftModel> model_;
  nn::PrefixCache prefixes_;
  DrafterInfo info_;
  absl::node_hash_map<uint64_t, Sequence> sequences_;  // By session.
  DraftAhead ahead_;
  DraftTrace trace_;
};

Engine::Engine(const DrafterOptions& options, FeatureSource* features,
               std::unique_ptr<DraftModel> model)
    : options_(options),
      features_(features),
      model_(std::move(model)),
      prefixes_(&model_->pages()) {
  const std::filesystem::path folder = std::filesystem::path(options.drafter_folder) / "";
  info_.model = folder.parent_path().filename().string();
  info_.positions = model_->positions();
  info_.vocabulary = model_->config().dims.vocabulary;
  info_.max_context = model_->config().max_positions - model_->config().dflash.block_size;
  info_.wants_tokens = options.reuse_prefixes;
}

absl::StatusOr<Sequence*> Engine::FindOrOpen(SequenceId id) {
  const auto found = sequences_.find(id.session);
  if (found != sequences_.end()) {
    if (found->second.id.epoch == id.epoch) return &found->second;
    if (found->second.id.epoch > id.epoch) {
      return absl::FailedPreconditionError(absl::StrCat("sequence ", id.session, ": epoch ",
                                                        id.epoch, " is stale; epoch ",
                                                        found->second.id.epoch, " is open"));
    }
    Close(found->second.id);
  }
  if (live_sequences() >= options_.max_sequences) {
    return absl::ResourceExhaustedError(
        absl::StrCat(options_.max_sequences, " sequences are already open; raise --max_sequences"));
  }
  Sequence& sequence = sequences_[id.session];
  sequence.id = id;
  return &sequence;
}

void Engine::Close(SequenceId sequence) {
  const auto found = sequences_.find(sequence.session);
  if (found == sequences_.end() || found->second.id.epoch != sequence.epoch) return;
  model_->pages().Shrink(found->second.table, 0);
  sequences_.erase(found);
  ahead_.Forget(sequence);
}

absl::Status Engine::CatchUp(const Frontier& frontier, Sequence& sequence) {
  if (frontier.committed > info_.max_context) {
    return absl::OutOfRangeError(absl::StrCat("the context has ", frontier.committed,
                                              " tokens, but this drafter supports at most ",
                                              info_.max_context));
  }
  if (frontier.committed < sequence.context) {
    return absl::FailedPreconditionError(
        absl::StrCat("sequence ", frontier.sequence.session, ": ", sequence.context,
                     " context tokens are cached, but the frontier has only ", frontier.committed));
  }
  ReusePrefix(frontier.cache_salt, sequence);
  while (sequence.context < frontier.committed) {
    const int count = std::min(frontier.committed - sequence.context, kContextChunk);
    FeatureRange range = {frontier.sequence, sequence.context, count,
                          /*may_be_on_device=*/model_->device_reader() != nullptr};
    absl::Status appended = AppendRange(range, sequence);
    if (absl::IsAborted(appended)) {
      range.may_be_on_device = false;
      appended = AppendRange(range, sequence);
    }
    RETURN_IF_ERROR(appended);
  }
  if (sequence.prefix.has_value()) {
    const auto tokens = absl::MakeConstSpan(sequence.tokens).subspan(0, sequence.context);
    (void)prefixes_.Add(tokens, sequence.table, *sequence.prefix);
  }
  return absl::OkStatus();
}

void Engine::ReusePrefix(const std::string& salt, Sequence& sequence) {
  if (!options_.reuse_prefixes || sequence.prefix.has_value() || sequence.tokens.empty()) return;
  if (sequence.context > 0 || !sequence.table.pages.empty()) return;
  sequence.prefix = prefixes_.Begin(salt);
  sequence.context = prefixes_.Reuse(sequence.tokens, sequence.table, *sequence.prefix);
}

absl::Status Engine::AppendRange(const FeatureRange& range, Sequence& sequence) {
  StopWatch watch;
  absl::StatusOr<Features> features = features_->Read(range, options_.feature_timeout);
  trace_.features += watch.Lap();
  RETURN_IF_ERROR(features.status());
  model_->WakeUp();
  const int rows = features->rows();
  const absl::Status appended =
      model_->AppendContext({{&sequence.table, sequence.context, *std::move(features)}});
  trace_.context += watch.Lap();
  RETURN_IF_ERROR(appended);
  trace_.context_tokens += rows;
  sequence.context += rows;
  return absl::OkStatus();
}

absl::Status Engine::Check(const Frontier& frontier) const {
  if (frontier.root >= 0 && frontier.root < info_.vocabulary && frontier.candidates > 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("frontier: root ", frontier.root, " must be in [0, ", info_.vocabulary,
                   "), and the number of candidates, ", frontier.candidates, ", must be positive"));
}

absl::StatusOr<std::vector<Draft>> Engine::Expand(absl::Span<const Frontier> frontiers) {
  trace_ = {};
  trace_.drafts = static_cast<int>(frontiers.size());
  ASSIGN_OR_RETURN(std::vector<Draft> drafts, MakeDrafts(frontiers));
  ahead_.PredictNext(frontiers);
  return drafts;
}

void Engine::FeaturesArrived(SequenceId sequence, Position committed, TokenId root) {
  const std::vector<Frontier> predicted = ahead_.AddArrival(sequence, committed, root);
  if (predicted.empty()) return;
  absl::StatusOr<std::vector<Draft>> drafts = MakeDrafts(predicted);
  // An error is dropped here: it will occur again, and be reported, when the draft is requested.
  if (drafts.ok()) ahead_.Keep(predicted, *std::move(drafts));
}

absl::StatusOr<std::vector<Draft>> Engine::MakeDrafts(absl::Span<const Frontier> frontiers) {
  std::vector<Draft> drafts(frontiers.size());
  std::vector<BlockItem> blocks;
  std::vector<Marginals*> wanted;
  int candidates = 1;
  for (size_t i = 0; i < frontiers.size(); ++i) {
    const Frontier& frontier = frontiers[i];
    RETURN_IF_ERROR(Check(frontier));
    ASSIGN_OR_RETURN(Sequence * sequence, FindOrOpen(frontier.sequence));
    if (options_.reuse_prefixes) AddNewTokens(frontier, sequence->tokens);
    if (ahead_.Take(frontier, drafts[i])) {
      ++trace_.ahead;
      continue;
    }
    drafts[i].marginals.resize(frontier.paths.size());
    if (const absl::Status ready = CatchUp(frontier, *sequence); !ready.ok()) {
      if (!std::exchange(sequence->warned, true)) LOG(WARNING) << "no draft: " << ready;
      continue;
    }
    // Block diffusion drafts from the root only; a deeper node would need its own context.
    const auto root = std::find_if(frontier.paths.begin(), frontier.paths.end(),
                                   [](const auto& path) { return path.empty(); });
    if (root == frontier.paths.end()) continue;
    blocks.push_back({&sequence->table, sequence->context, frontier.root});
    if (frontier.coupled) blocks.back().coupling = frontier.sampling;
    wanted.push_back(&drafts[i].marginals[root - frontier.paths.begin()]);
    candidates = std::max(candidates, frontier.candidates);
  }
  if (blocks.empty()) return drafts;
  StopWatch watch;
  ASSIGN_OR_RETURN(std::vector<Marginals> marginals, model_->Draft(blocks, candidates));
  trace_.candidates = model_->candidates_time();
  trace_.forward = watch.Lap() - trace_.candidates;
  for (size_t b = 0; b < blocks.size(); ++b) *wanted[b] = std::move(marginals[b]);
  return drafts;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DrafterEngine>> DrafterEngine::Create(const DrafterOptions& options,
                                                                     FeatureSource* features) {
  const DraftModelLoader load = options.load_model == nullptr ? LoadCpuDflash : options.load_model;
  nn::EngineOptions engine = options.engine;
  engine.max_sequences = options.max_sequences;
  engine.max_rows = kContextChunk;
  ASSIGN_OR_RETURN(auto model, load(options.drafter_folder, options.target_folder, engine));
  return std::make_unique<Engine>(options, features, std::move(model));
}

}  // namespace bastion::drafter
