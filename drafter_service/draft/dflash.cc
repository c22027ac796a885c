#include "drafter_service/draft/dflash.h"

#include <algorithm>
#include <cstring>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace bastion::drafter {

DflashModel::DflashModel(std::unique_ptr<nn::Decoder> decoder, nn::Vocabulary vocabulary,
                         nn::Matrix fuse, nn::Buffer context_norm)
    : decoder_(std::move(decoder)),
      vocabulary_(std::move(vocabulary)),
      fuse_(std::move(fuse)),
      context_norm_(std::move(context_norm)) {}

absl::StatusOr<std::unique_ptr<DflashModel>> DflashModel::Load(const std::string& drafter_folder,
                                                               const std::string& target_folder,
                                                               const nn::EngineOptions& options) {
  ASSIGN_OR_RETURN(const DraftPair pair, ReadDraftPair(drafter_folder, target_folder));
  const hub::ModelConfig& config = pair.drafter;
  ASSIGN_OR_RETURN(const auto checkpoint, hub::Checkpoint::Open(drafter_folder));
  ASSIGN_OR_RETURN(const auto target, hub::Checkpoint::Open(target_folder));
  nn::PackingPlan plan;
  const nn::WeightLoader loader(checkpoint, options.dtype, plan);
  ASSIGN_OR_RETURN(auto decoder, nn::Decoder::Load(loader, config, options));
  const nn::WeightLoader target_loader(target, options.dtype, plan);
  ASSIGN_OR_RETURN(auto vocabulary, nn::Vocabulary::Load(target_loader, pair.target));
  // Features are not normalized, so their magnitudes vary too much for int8.
  const nn::WeightLoader unrounded(checkpoint, nn::StoredType(options.dtype), plan);
  const int features = static_cast<int>(config.dflash.target_layer_ids.size()) * config.dims.hidden;
  ASSIGN_OR_RETURN(nn::Matrix fuse,
                   unrounded.Stacked({"fc.weight"}, {config.dims.hidden}, features));
  ASSIGN_OR_RETURN(nn::Buffer norm, loader.Vector("hidden_norm.weight", config.dims.hidden));
  RETURN_IF_ERROR(hub::CheckAllRead(*checkpoint, config.names, config.tie_word_embeddings));
  RETURN_IF_ERROR(plan.Run(drafter_folder, options));
  return std::unique_ptr<DflashModel>(
      new DflashModel(std::move(decoder), std::move(vocabulary), std::move(fuse), std::move(norm)));
}

absl::Status DflashModel::AppendContext(const std::vector<ContextItem>& items) {
  const int width = config().dims.hidden;
  ASSIGN_OR_RETURN(const nn::RowBatch batch,
                   LayOutContext(items, feature_width(), decoder_->cache()));
  if (batch.rows() == 0) return absl::OkStatus();
  float* features = features_.Reserve(batch.rows(), feature_width());  // [R, F]
  float* fused = fused_.Reserve(batch.rows(), width);                  // [R, C]
  float* context = context_.Reserve(batch.rows(), width);              // [R, C]
  float* next = features;
  for (const ContextItem& item : items) {
    const int64_t count = int64_t{item.features.rows()} * feature_width();
    kernels::ConvertElements(item.features.type, item.features.bytes.data(), count, DType::kF32,
                             next);
    next += count;
  }
  const nn::Device& device = decoder_->device();
  device.backend->linear({features, fuse_.packed, fused, batch.rows(), width, false}, *device.pool);
  device.backend->rms_norm({fused, context_norm_.as<float>(), context, batch.rows(), width,
                            static_cast<float>(config().blocks.norm_epsilon)},
                           *device.pool);
  decoder_->StoreContext(batch, context);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Marginals>> DflashModel::Draft(const std::vector<BlockItem>& items,
                                                          int candidates) {
  const int block = config().dflash.block_size;
  for (const BlockItem& item : items) {
    RETURN_IF_ERROR(decoder_->cache().Reserve(*item.table, item.cached + block));
  }
  const nn::RowBatch batch = LayOutBlocks(items, config().dflash);
  const int blocks = static_cast<int>(items.size());
  ForwardBlocks(batch, blocks);
  for (const BlockItem& item : items) decoder_->cache().Shrink(*item.table, item.cached);
  StopWatch watch;
  std::vector<Marginals> marginals = TopMarginals(items, std::min(candidates, vocabulary_.size()));
  candidates_time_ = watch.Lap();
  decoder_->device().pool->Rest();
  return marginals;
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
  // The root's row predicts nothing, so remove it by moving the other rows together.
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
  const std::vector<kernels::ChoiceRule> coupling = CouplingRules(items, positions());
  std::vector<TokenId> tokens(size_t(blocks) * positions() * candidates);
  std::vector<float> log_probs(tokens.size());
  decoder_->device().backend->top_k({logits_data_, coupling.data(), tokens.data(), log_probs.data(),
                                     blocks * positions(), vocabulary_.size(), candidates},
                                    *decoder_->device().pool);
  return MarginalsOf({tokens.data(), log_probs.data(), positions(), candidates}, blocks);
}

nn::ForwardCost DflashModel::Cost() const {
  nn::ForwardCost cost = decoder_->Cost();
  cost.Add(vocabulary_.head());
  cost.Add(fuse_.packed);
  return cost;
}

absl::StatusOr<std::unique_ptr<DraftModel>> LoadCpuDflash(const std::string& drafter_folder,
                                                          const std::string& target_folder,
                                                          const nn::EngineOptions& options) {
  return DflashModel::Load(drafter_folder, target_folder, options);
}

}  // namespace bastion::drafter
