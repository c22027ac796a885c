#include "drafter_service/draft/dflash.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace bastion::drafter {
namespace {

absl::Status Mismatch(const std::string& drafter, const std::string& what, int64_t drafter_value,
                      int64_t target_value) {
  return absl::InvalidArgumentError(absl::StrCat(drafter, ": made for another target: its ", what,
                                                 " is ", drafter_value, ", the target's is ",
                                                 target_value));
}

absl::Status CheckPair(const std::string& folder, const hub::ModelConfig& drafter,
                       const hub::ModelConfig& target) {
  if (drafter.kind != hub::ModelKind::kDrafter) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder, ": ", drafter.architecture, " is not a DFlash drafter"));
  }
  if (drafter.dims.vocabulary != target.dims.vocabulary) {
    return Mismatch(folder, "vocabulary", drafter.dims.vocabulary, target.dims.vocabulary);
  }
  if (drafter.dims.hidden != target.dims.hidden) {
    return Mismatch(folder, "hidden width", drafter.dims.hidden, target.dims.hidden);
  }
  if (drafter.dflash.num_target_layers != target.dims.layers) {
    return Mismatch(folder, "num_target_layers", drafter.dflash.num_target_layers,
                    target.dims.layers);
  }
  return absl::OkStatus();
}

void ToFloats(const Features& features, float* out) {
  const size_t count = size_t(features.rows()) * features.width;
  if (features.type == FeatureType::kF32) {
    std::memcpy(out, features.bytes.data(), count * 4);
    return;
  }
  for (size_t i = 0; i < count; ++i) {
    uint16_t bits;
    std::memcpy(&bits, features.bytes.data() + 2 * i, 2);
    out[i] = kernels::Bf16ToFloat(bits);
  }
}

// The target's rule for a draft: its truncation goes by the target's probabilities and the
// drafter's are a little off, so twice as much is left in.
kernels::ChoiceRule DraftRule(const ChoiceParams& choice, Position position) {
  const int top_k = std::min(choice.top_k, std::numeric_limits<int>::max() / 2);
  return {choice.temperature,         choice.seed,     position, 2 * top_k,
          1 - (1 - choice.top_p) / 2, choice.min_p / 2};
}

}  // namespace

DflashModel::DflashModel(std::unique_ptr<nn::Decoder> decoder, nn::Vocabulary vocabulary,
                         nn::Matrix fuse, nn::Tensor context_norm)
    : decoder_(std::move(decoder)),
      vocabulary_(std::move(vocabulary)),
      fuse_(std::move(fuse)),
      context_norm_(std::move(context_norm)) {}

absl::StatusOr<std::unique_ptr<DflashModel>> DflashModel::Load(const std::string& drafter_folder,
                                                               const std::string& target_folder,
                                                               const nn::EngineOptions& options) {
  ASSIGN_OR_RETURN(hub::ModelConfig config, hub::ReadModelConfig(drafter_folder));
  ASSIGN_OR_RETURN(const hub::ModelConfig target_config, hub::ReadModelConfig(target_folder));
  RETURN_IF_ERROR(CheckPair(drafter_folder, config, target_config));
  config.max_positions = std::min(config.max_positions, target_config.max_positions) +
                         config.dflash.block_size;  // A block may reach past the last token.
  ASSIGN_OR_RETURN(const auto checkpoint, hub::Checkpoint::Open(drafter_folder));
  ASSIGN_OR_RETURN(const auto target, hub::Checkpoint::Open(target_folder));
  nn::PackingPlan plan;
  const nn::WeightLoader loader(checkpoint, options.dtype, plan);
  ASSIGN_OR_RETURN(auto decoder, nn::Decoder::Load(loader, config, "", options));
  const nn::WeightLoader target_loader(target, options.dtype, plan);
  ASSIGN_OR_RETURN(auto vocabulary, nn::Vocabulary::Load(target_loader, target_config));
  // Features come as the target's layers leave them, not normed: too uneven to be rounded to int8.
  const nn::WeightLoader unrounded(checkpoint, nn::StoredType(options.dtype), plan);
  const int features = static_cast<int>(config.dflash.target_layer_ids.size()) * config.dims.hidden;
  ASSIGN_OR_RETURN(nn::Matrix fuse,
                   unrounded.Stacked({"fc.weight"}, {config.dims.hidden}, features));
  ASSIGN_OR_RETURN(nn::Tensor norm, loader.Vector("hidden_norm.weight", config.dims.hidden));
  plan.Run(drafter_folder, options);
  return std::unique_ptr<DflashModel>(
      new DflashModel(std::move(decoder), std::move(vocabulary), std::move(fuse), std::move(norm)));
}

absl::Status DflashModel::AppendContext(const std::vector<ContextItem>& items) {
  const int width = config().dims.hidden;
  nn::RowBatch batch;
  for (const ContextItem& item : items) {
    const int rows = item.features.rows();
    if (rows == 0) continue;
    if (item.features.width != feature_width()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "features are ", item.features.width, " wide, this drafter reads ", feature_width()));
    }
    RETURN_IF_ERROR(decoder_->cache().Reserve(*item.table, item.cached + rows));
    batch.AddRun({item.table, item.cached, kernels::RowMask::kCausal},
                 std::vector<TokenId>(rows, 0));
  }
  if (batch.rows() == 0) return absl::OkStatus();
  float* features = features_.Reserve(batch.rows(), feature_width());  // [R, F]
  float* fused = fused_.Reserve(batch.rows(), width);                  // [R, C]
  float* context = context_.Reserve(batch.rows(), width);              // [R, C]
  float* next = features;
  for (const ContextItem& item : items) {
    ToFloats(item.features, next);
    next += int64_t{item.features.rows()} * feature_width();
  }
  const nn::Device& device = decoder_->device();
  device.backend->linear({features, fuse_.packed, fused, batch.rows(), width, false}, *device.pool);
  device.backend->rms_norm({fused, context_norm_.data_ptr<float>(), context, batch.rows(), width,
                            static_cast<float>(config().rms_norm_eps)},
                           *device.pool);
  decoder_->StoreContext(batch, context);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Marginals>> DflashModel::Draft(const std::vector<BlockItem>& items,
                                                          int candidates) {
  const int block = config().dflash.block_size;
  nn::RowBatch batch;
  for (const BlockItem& item : items) {
    RETURN_IF_ERROR(decoder_->cache().Reserve(*item.table, item.cached + block));
  }
  for (const BlockItem& item : items) {
    std::vector<TokenId> tokens(block, config().dflash.mask_token);
    tokens[0] = item.root;
    batch.AddRun({item.table, item.cached, kernels::RowMask::kFull}, tokens);
  }
  const int blocks = static_cast<int>(items.size());
  ForwardBlocks(batch, blocks);
  for (const BlockItem& item : items) decoder_->cache().Shrink(*item.table, item.cached);
  return TopMarginals(items, std::min(candidates, vocabulary_.size()));
}

void DflashModel::ForwardBlocks(const nn::RowBatch& batch, int blocks) {
  const int width = config().dims.hidden;
  const int drafted = blocks * positions();
  float* hidden = hidden_.Reserve(batch.rows(), width);         // [B (P + 1), C]
  float* normed = normed_.Reserve(batch.rows(), width);         // [B (P + 1), C]
  logits_data_ = logits_.Reserve(drafted, vocabulary_.size());  // [B, P, V]
  vocabulary_.Embed(decoder_->device(), batch.tokens(), hidden);
  decoder_->Forward(batch, hidden);
  decoder_->FinalNorm(hidden, batch.rows(), normed);
  // The root's row predicts nothing: close the gaps.
  for (int b = 0; b < blocks; ++b) {
    std::memmove(normed + int64_t{b} * positions() * width,
                 normed + (int64_t{b} * (positions() + 1) + 1) * width,
                 sizeof(float) * positions() * width);
  }
  vocabulary_.Logits(decoder_->device(), normed, drafted, logits_data_);
}

std::vector<Marginals> DflashModel::TopMarginals(const std::vector<BlockItem>& items,
                                                 int candidates) const {
  const auto blocks = static_cast<int>(items.size());
  // Position i of a block is the choice of the token i + 1 places after its root.
  std::vector<kernels::ChoiceRule> coupling(size_t(blocks) * positions());
  for (int b = 0; b < blocks; ++b) {
    if (!items[b].coupling) continue;
    for (int i = 0; i < positions(); ++i) {
      coupling[b * positions() + i] = DraftRule(*items[b].coupling, items[b].cached + 1 + i);
    }
  }
  std::vector<TokenId> tokens(size_t(blocks) * positions() * candidates);
  std::vector<float> log_probs(tokens.size());
  decoder_->device().backend->top_k({logits_data_, coupling.data(), tokens.data(), log_probs.data(),
                                     blocks * positions(), vocabulary_.size(), candidates},
                                    *decoder_->device().pool);
  std::vector<Marginals> all(blocks);
  const int64_t share = int64_t{positions()} * candidates;
  for (int b = 0; b < blocks; ++b) {
    all[b].positions = positions();
    all[b].candidates = candidates;
    all[b].tokens.assign(tokens.begin() + b * share, tokens.begin() + (b + 1) * share);
    all[b].log_probs.assign(log_probs.begin() + b * share, log_probs.begin() + (b + 1) * share);
  }
  return all;
}

nn::ForwardCost DflashModel::Cost() const {
  nn::ForwardCost cost = decoder_->Cost();
  cost.Add(vocabulary_.head());
  cost.Add(fuse_.packed);
  return cost;
}

}  // namespace bastion::drafter
