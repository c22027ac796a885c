#include "drafter_service/draft/dflash.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/hub/checkpoint.h"
#include "engine/model/row_buckets.h"

namespace bastion::drafter {
namespace {

enum Kind { kContext, kPairStates };

// How often features were copied from the ring. The device stores `finished`.
struct RingCopies {
  uint64_t started, finished;
};

bool ReadsRing(const std::vector<ContextItem>& items) {
  return std::any_of(items.begin(), items.end(),
                     [](const ContextItem& item) { return item.features.on_device(); });
}

// The capacity for whole blocks and for context rows.
nn::StepCapacity CapacityFor(const hub::ModelConfig& config, nn::EngineOptions options) {
  options.max_rows =
      std::max(options.max_rows, options.max_sequences * config.drafter.dflash.block_size);
  return nn::CapacityOf(config, options);
}

// Some checkpoints of version 2 have an embedding and a head of their own.
absl::StatusOr<nn::Vocabulary> LoadVocabularyFor(const DraftPair& pair, const nn::WeightLoader& own,
                                                 const nn::WeightLoader& target,
                                                 const nn::EngineOptions& options) {
  const hub::TensorNames& names = pair.drafter.names;
  const bool embedding = own.Has(names.embedding + ".weight");
  const bool head = own.Has(names.head + ".weight");
  const std::vector<TokenId>* const tokens = options.head_tokens.get();
  if (pair.drafter.drafter.dflash.selector_rank == 0 || (!embedding && !head)) {
    return nn::LoadVocabulary(target, pair.target, tokens);
  }
  if (embedding && head) return nn::LoadVocabulary(own, pair.drafter, tokens);
  return absl::InvalidArgumentError(absl::StrCat(
      own.folder(), ": tensor '", embedding ? names.embedding : names.head, ".weight' needs '",
      embedding ? names.head : names.embedding, ".weight' beside it; a drafter has both or none"));
}

// Loads what only version 2 has, apart from the convolutions. The projection is small and its
// rounding would change the ranks of pairs.
absl::Status LoadSelector(const std::shared_ptr<const hub::Checkpoint>& checkpoint,
                          const nn::WeightLoader& loader, const hub::ModelConfig& config,
                          DflashWeights& weights) {
  const int rank = config.drafter.dflash.selector_rank;
  if (rank == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(
      weights.pair_projection,
      loader.StackedAs(nn::UnquantizedFormat(loader.formats()),
                       {nn::AllRows("candidate_selector.hidden_projection.weight", rank)},
                       config.dims.hidden));
  ASSIGN_OR_RETURN(weights.pairs, PairSelector::Open(checkpoint, config));
  return absl::OkStatus();
}

// A row of logits with NaNs has no candidates.
absl::Status CheckCandidates(const std::vector<Marginals>& all) {
  for (const Marginals& marginals : all) {
    for (size_t i = 0; i < marginals.tokens.size(); ++i) {
      if (marginals.tokens[i] >= 0 && !std::isnan(marginals.log_probs[i])) continue;
      return absl::InternalError("the drafter's logits are not finite");
    }
  }
  return absl::OkStatus();
}

}  // namespace

nn::ForwardCost DflashWeights::Cost() const {
  nn::ForwardCost cost = decoder->Cost();
  cost.Add(pair_projection);
  cost.Add(vocabulary.head);
  cost.Add(fuse);
  return cost;
}

absl::StatusOr<DflashWeights> LoadDflashWeights(const std::string& drafter_folder,
                                                const std::string& target_folder,
                                                const nn::EngineOptions& options,
                                                nn::PackingPlan& plan) {
  ASSIGN_OR_RETURN(const DraftPair pair, ReadDraftPair(drafter_folder, target_folder));
  const hub::ModelConfig& config = pair.drafter;
  ASSIGN_OR_RETURN(const auto checkpoint, hub::Checkpoint::Open(drafter_folder));
  ASSIGN_OR_RETURN(const auto target, hub::Checkpoint::Open(target_folder));
  const nn::WeightLoader loader(*options.device, checkpoint, options.formats, plan);
  const nn::WeightLoader target_loader(*options.device, target, options.formats, plan);
  DflashWeights weights;
  ASSIGN_OR_RETURN(weights.decoder,
                   nn::Decoder::Load(loader, config, options, CapacityFor(config, options)));
  ASSIGN_OR_RETURN(weights.vocabulary, LoadVocabularyFor(pair, loader, target_loader, options));
  // Features are not normalized, so their magnitudes vary too much for int8.
  const int features =
      static_cast<int>(config.drafter.dflash.target_layer_ids.size()) * config.dims.hidden;
  ASSIGN_OR_RETURN(weights.fuse,
                   loader.StackedAs(nn::UnquantizedFormat(options.formats),
                                    {nn::AllRows("fc.weight", config.dims.hidden)}, features));
  weights.context_norm.epsilon = static_cast<float>(config.blocks.norm_epsilon);
  weights.context_norm.width = config.dims.hidden;
  ASSIGN_OR_RETURN(weights.context_norm.weight,
                   loader.Vector("hidden_norm.weight", config.dims.hidden));
  RETURN_IF_ERROR(LoadSelector(checkpoint, loader, config, weights));
  RETURN_IF_ERROR(hub::CheckAllRead(*checkpoint, config.names, config.tie_word_embeddings));
  return weights;
}

absl::StatusOr<CheckedDrafter> CheckDflash(const std::string& drafter_folder,
                                           const std::string& target_folder,
                                           const nn::EngineOptions& options) {
  ASSIGN_OR_RETURN(const DraftPair pair, ReadDraftPair(drafter_folder, target_folder));
  nn::PackingPlan plan;  // Never run: no matrix is packed.
  ASSIGN_OR_RETURN(const DflashWeights weights,
                   LoadDflashWeights(drafter_folder, target_folder, options, plan));
  const int block = pair.drafter.drafter.dflash.block_size;
  return CheckedDrafter{pair.drafter, weights.Cost(), pair.target.dims,
                        block,        block - 1,      weights.fuse.columns};
}

absl::StatusOr<std::unique_ptr<DflashModel>> DflashModel::Load(const std::string& drafter_folder,
                                                               const std::string& target_folder,
                                                               const nn::EngineOptions& options) {
  nn::PackingPlan plan;
  ASSIGN_OR_RETURN(DflashWeights weights,
                   LoadDflashWeights(drafter_folder, target_folder, options, plan));
  RETURN_IF_ERROR(plan.Run(drafter_folder, options));
  if (!weights.pairs.empty()) weights.pairs.Load();
  auto model = std::unique_ptr<DflashModel>(new DflashModel(std::move(weights)));
  RETURN_IF_ERROR(model->Allocate());
  RETURN_IF_ERROR(model->Prepare());
  return model;
}

absl::Status DflashModel::Allocate() {
  nn::Decoder& decoder = *weights_.decoder;
  const nn::EngineOptions& options = decoder.options();
  nn::StepSizes sizes = {.rows = {}, .wanted = {}, .gathers = true};
  for (const int blocks : nn::RowBuckets(options.max_sequences)) {
    sizes.rows.push_back(blocks * block());
    sizes.wanted.push_back(blocks * positions());
  }
  std::vector<nn::Entry> entries;
  if (const float scale = config().drafter.dflash.embedding_scale; scale != 1) {
    entries.emplace_back([this, scale](const kernels::Rows& rows) {
      nn::Activations& x = weights_.decoder->activations();
      x.Embed(rows, weights_.vocabulary.table.data(), weights_.vocabulary.type);
      x.Scale(rows, scale);
    });
  }
  ASSIGN_OR_RETURN(
      step_, nn::Step::Create(decoder, weights_.vocabulary, std::move(sizes), std::move(entries)));
  if (!weights_.pairs.empty()) {
    const int rank = weights_.pair_projection.rows;
    const int rows = options.max_sequences * positions();
    const int padded = std::max(rows, step_->PaddedWanted(rows));
    ASSIGN_OR_RETURN(pair_states_, device().CreateLogits(padded, rank));
    ASSIGN_OR_RETURN(host_pair_states_,
                     device().AllocateOnHost(sizeof(float) * rows * rank, "states for pairs"));
  }
  ASSIGN_OR_RETURN(context_inputs_, nn::StepInputs::Create(device(), decoder.capacity()));
  if (device().records()) context_sizes_ = nn::RowBuckets(options.max_rows);
  reader_ = device().MakeReader(options.formats.activations);
  if (reader_ != nullptr) {
    ASSIGN_OR_RETURN(ring_copies_,
                     device().AllocateOnHost(sizeof(RingCopies), "counts of copies from the ring"));
  }
  input_type_ = device().input_type(options.formats.activations);
  const size_t bytes = Bytes(input_type_, int64_t{decoder.capacity().rows} * feature_width());
  ASSIGN_OR_RETURN(features_, device().AllocateMirrored(bytes, "the features of new context"));
  return absl::OkStatus();
}

absl::Status DflashModel::Prepare() {
  RETURN_IF_ERROR(step_->SetFeatureLayers({}, weights_.decoder->options().show_progress));
  for (const int rows : step_->sizes().wanted) {
    if (weights_.pairs.empty()) break;
    RETURN_IF_ERROR(RunProjection(rows));
    RETURN_IF_ERROR(device().Finish());
  }
  const nn::RowBatch empty;
  for (const int rows : context_sizes_) {
    context_inputs_.Send({empty}, rows);
    RETURN_IF_ERROR(RunContext(rows));
    RETURN_IF_ERROR(device().Finish());
  }
  return absl::OkStatus();
}

absl::Status DflashModel::RunContext(int rows) {
  return device().Run({this, kContext, rows}, [&] {
    const kernels::Rows in = context_inputs_.Rows(rows);
    nn::Activations& x = weights_.decoder->activations();
    x.Project(in, weights_.fuse, features_.device.data());
    x.Normalize(in, weights_.context_norm, {});
    weights_.decoder->StoreContext(in);
  });
}

absl::Status DflashModel::RunProjection(int rows) {
  return device().Run({this, kPairStates, rows}, [&] {
    weights_.decoder->activations().Head(weights_.pair_projection, step_->inputs().wanted(), rows,
                                         *pair_states_);
  });
}

absl::Status DflashModel::ReadPairStates() {
  if (weights_.pairs.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(RunProjection(step_->PaddedWanted(step_->wanted_rows())));
  pair_states_->CopyRows(step_->wanted_rows(), host_pair_states_.as<float>());
  return absl::OkStatus();
}

absl::Status DflashModel::ScorePairs(const std::vector<BlockItem>& items,
                                     std::vector<Marginals>& marginals) {
  RETURN_IF_ERROR(CheckCandidates(marginals));
  if (weights_.pairs.empty()) return absl::OkStatus();
  std::vector<PairBlock> blocks;
  blocks.reserve(items.size());
  for (const BlockItem& item : items) {
    const float temperature = item.coupling.has_value() ? item.coupling->temperature : 0;
    blocks.push_back({item.root, temperature > 0 ? temperature : 1});
  }
  return weights_.pairs.Score(blocks, host_pair_states_.as<float>(), *device().host().pool,
                              marginals);
}

absl::Status DflashModel::StageFeatures(const std::vector<ContextItem>& items) {
  size_t begin = 0;
  for (const ContextItem& item : items) {
    const Features& features = item.features;
    const int64_t count = int64_t{features.rows()} * feature_width();
    const size_t bytes = Bytes(input_type_, count);
    char* const to = features_.device.as<char>() + begin;
    if (features.on_device()) {
      if (reader_ == nullptr || features.type != reader_->type) {
        return absl::AbortedError(
            "this drafter cannot read the type of the features in device memory");
      }
      device().Copy(to, features.device.data(), bytes);
    } else {
      char* const converted = features_.host.as<char>() + begin;
      kernels::ConvertElements(features.type, features.bytes.data(), count, input_type_, converted);
      device().Copy(to, converted, bytes);
    }
    begin += bytes;
  }
  if (ReadsRing(items)) {
    auto* const copies = ring_copies_.as<RingCopies>();
    ++copies->started;
    device().Raise(&copies->started, &copies->finished);
  }
  return absl::OkStatus();
}

absl::Status DflashModel::CheckCopies(const std::vector<ContextItem>& items) {
  if (!ReadsRing(items)) return absl::OkStatus();
  const auto* const copies = ring_copies_.as<RingCopies>();
  RETURN_IF_ERROR(device().Await(&copies->finished, copies->started));
  const bool intact = std::all_of(items.begin(), items.end(), [](const ContextItem& item) {
    return !item.features.on_device() || item.features.device.intact();
  });
  if (intact) return absl::OkStatus();
  return absl::AbortedError("the features in the ring were overwritten while they were read");
}

absl::Status DflashModel::AppendContext(const std::vector<ContextItem>& items) {
  ASSIGN_OR_RETURN(const nn::RowBatch batch, LayOutContext(items, feature_width(), pages()));
  if (batch.rows() == 0) return absl::OkStatus();
  const int limit =
      context_sizes_.empty() ? context_inputs_.capacity().rows : context_sizes_.back();
  if (batch.rows() > limit) {
    return absl::InvalidArgumentError(
        absl::StrCat(batch.rows(), " rows of context in one call; the limit is ", limit));
  }
  // Wait until the device has read the previous context.
  if (context_pending_) {
    RETURN_IF_ERROR(device().Finish());
  }
  RETURN_IF_ERROR(StageFeatures(items));
  const int rows = nn::BucketOf(context_sizes_, batch.rows());
  context_inputs_.Send({batch}, rows);
  RETURN_IF_ERROR(RunContext(rows));
  context_pending_ = true;
  // The device computes the context meanwhile. If a copy failed, the caller appends the rows again,
  // and the new keys and values replace these.
  return CheckCopies(items);
}

absl::StatusOr<std::vector<Marginals>> DflashModel::RunDraft(const std::vector<BlockItem>& items,
                                                             int candidates) {
  const nn::RowBatch batch = LayOutBlocks(items, config().drafter.dflash);
  // The root's row predicts nothing.
  std::vector<int32_t> wanted;
  wanted.reserve(batch.rows());
  for (int row = 0; row < batch.rows(); ++row) {
    if (row % block() != 0) wanted.push_back(row);
  }
  const std::vector<kernels::ChoiceRule> rules = CouplingRules(items, positions());
  RETURN_IF_ERROR(step_->Forward({.batch = batch, .wanted = wanted, .rules = rules}));
  RETURN_IF_ERROR(step_->Head());
  StopWatch watch;
  const hub::DFlashConfig& dflash = config().drafter.dflash;
  if (dflash.output_multiplier != 1 || dflash.logit_cap > 0) {
    step_->logits().Scale(step_->PaddedWanted(step_->wanted_rows()), dflash.output_multiplier,
                          dflash.logit_cap);
  }
  RETURN_IF_ERROR(ReadPairStates());
  // The selector was trained for this many candidates only.
  if (!weights_.pairs.empty()) candidates = std::min(candidates, dflash.selector_candidates);
  auto marginals = ranking_.Rank(*step_, positions(), candidates);
  if (marginals.ok()) {
    if (const absl::Status scored = ScorePairs(items, *marginals); !scored.ok()) marginals = scored;
  }
  candidates_time_ = device().on_host() ? watch.Lap() : absl::ZeroDuration();
  context_pending_ = false;
  device().Rest();
  return marginals;
}

absl::StatusOr<std::vector<Marginals>> DflashModel::Draft(const std::vector<BlockItem>& items,
                                                          int candidates) {
  const int limit = weights_.decoder->options().max_sequences;
  if (static_cast<int>(items.size()) > limit) {
    return absl::InvalidArgumentError(
        absl::StrCat(items.size(), " blocks in one draft; the limit is ", limit));
  }
  for (const BlockItem& item : items) {
    RETURN_IF_ERROR(pages().Reserve(*item.table, item.cached + block()));
  }
  auto marginals = RunDraft(items, candidates);
  for (const BlockItem& item : items) pages().Shrink(*item.table, item.cached);
  return marginals;
}

absl::StatusOr<std::vector<float>> DflashModel::ReadLogits() {
  std::vector<float> all;
  for (int row = 0; row < step_->wanted_rows(); ++row) {
    ASSIGN_OR_RETURN(const float* const logits, step_->logits().Row(row));
    all.insert(all.end(), logits, logits + step_->logits().vocabulary());
  }
  return all;
}

}  // namespace bastion::drafter
