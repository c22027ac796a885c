#include "engine/model/decoder.h"

#include "absl/strings/str_cat.h"
#include "common/base/engine_progress.h"
#include "common/base/status.h"
#include "engine/model/rotary.h"

namespace bastion::nn {
namespace {

absl::Status CheckHeadDim(const hub::ModelConfig& config) {
  if (config.dims.head_dim % kernels::kWidest == 0 && config.dims.head_dim <= 512) {
    return absl::OkStatus();
  }
  return absl::UnimplementedError(
      absl::StrCat("head_dim is ", config.dims.head_dim,
                   "; this engine supports only multiples of 16 up to 512"));
}

}  // namespace

Decoder::Decoder(const hub::ModelConfig& config, const EngineOptions& options)
    : config_(config),
      options_(options),
      rope_(Buffer::Allocate(sizeof(float) * config.max_positions * config.blocks.rope.dims)),
      cache_({config.dims.layers, config.dims.kv_heads, config.dims.head_dim,
              StoredType(options.dtype)},
             PagesFor(options.kv_tokens)) {
  FillRotaryTable(config, *options.device.pool, rope_.as<float>());
}

absl::StatusOr<std::unique_ptr<Decoder>> Decoder::Load(const WeightLoader& loader,
                                                       const hub::ModelConfig& config,
                                                       const EngineOptions& options) {
  RETURN_IF_ERROR(Annotate(CheckHeadDim(config), loader.folder()));
  RETURN_IF_ERROR(Annotate(CheckStreaming(config, options.streaming), loader.folder()));
  auto decoder = std::unique_ptr<Decoder>(new Decoder(config, options));
  for (int layer = 0; layer < config.dims.layers; ++layer) {
    ASSIGN_OR_RETURN(BlockWeights weights, LoadBlock(loader, config, layer));
    const int window = config.sliding_windows[layer];
    const BlockShape shape = {.dims = config.dims,
                              .form = config.blocks,
                              .experts = config.expert_layers[layer],
                              .window = window,
                              .causal = window > 0 && config.dflash.causal_windows,
                              .rotary = config.blocks.rope.layers[layer],
                              .streaming = options.streaming};
    decoder->blocks_.emplace_back(shape, std::move(weights));
  }
  ASSIGN_OR_RETURN(decoder->final_norm_, LoadNorm(loader, config.names.final_norm, config));
  return decoder;
}

void Decoder::Forward(const RowBatch& batch, float* x, const LayerTap& tap) {
  int touched = 0, layers = 0;
  for (int layer = 0; layer < config_.dims.layers; ++layer) {
    touched +=
        blocks_[layer].Forward({options_.device, batch, cache_.layer(layer), rope_, scratch_}, x);
    layers += config_.expert_layers[layer] ? 1 : 0;
    if (tap) tap(layer, x);
    CountProgress();
  }
  touched_experts_ = layers == 0 ? 0 : static_cast<double>(touched) / layers;
}

void Decoder::StoreContext(const RowBatch& batch, const float* context) {
  for (int layer = 0; layer < config_.dims.layers; ++layer) {
    blocks_[layer].StoreContext({options_.device, batch, cache_.layer(layer), rope_, scratch_},
                                context);
    CountProgress();
  }
}

void Decoder::FinalNorm(const float* x, int rows, float* y) const {
  RunNorm(options_.device, NormOf(config_), final_norm_, {x, rows, y});
}

ForwardCost Decoder::Cost() const {
  ForwardCost cost;
  for (const DecoderBlock& block : blocks_) block.AddCost(cost);
  const ModelDims& dims = config_.dims;
  cost.kv_bytes_per_token = int64_t{2} * dims.layers * dims.kv_heads * dims.head_dim *
                            static_cast<int64_t>(BytesPerElement(StoredType(options_.dtype)));
  return cost;
}

absl::StatusOr<Vocabulary> Vocabulary::Load(const WeightLoader& loader,
                                            const hub::ModelConfig& config) {
  const std::string table = config.names.embedding + ".weight";
  const int size = config.dims.vocabulary, width = config.dims.hidden;
  Vocabulary vocabulary;
  vocabulary.dtype_ = StoredType(loader.dtype());
  ASSIGN_OR_RETURN(vocabulary.table_, loader.Table(table, size, width));
  const std::string head = config.tie_word_embeddings ? table : config.names.head + ".weight";
  ASSIGN_OR_RETURN(vocabulary.head_, loader.Stacked({head}, {size}, width));
  return vocabulary;
}

void Vocabulary::Embed(const Device& device, const std::vector<TokenId>& tokens, float* x) const {
  device.backend->embed(
      {tokens.data(), table_.data(), dtype_, x, static_cast<int>(tokens.size()), width()},
      *device.pool);
}

void Vocabulary::Logits(const Device& device, const float* x, int rows, float* logits) const {
  device.backend->linear({x, head_.packed, logits, rows, size(), false}, *device.pool);
}

}  // namespace bastion::nn
