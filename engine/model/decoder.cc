#include "engine/model/decoder.h"

#include <algorithm>

#include "common/base/engine_progress.h"
#include "common/base/status.h"
#include "engine/model/rotary.h"

namespace bastion::nn {
namespace {

constexpr int kMaskWord = 64;  // Rows per word of ancestor bits.

int RoundUp(int rows) { return (rows + kMaskWord - 1) / kMaskWord * kMaskWord; }

}  // namespace

StepCapacity CapacityOf(const hub::ModelConfig& config, const EngineOptions& options,
                        int tree_rows) {
  const int rows = RoundUp(options.max_rows);
  const int tree = std::max(rows, RoundUp(tree_rows));
  // The rejected nodes of a tree may be past the context. With a window, a text has no limit.
  const int tokens = options.streaming.on() ? options.kv_tokens : config.max_positions + tree;
  return {rows, options.max_sequences, PagesFor(options.kv_tokens), tokens, tree};
}

absl::StatusOr<std::unique_ptr<Decoder>> Decoder::Load(const WeightLoader& loader,
                                                       const hub::ModelConfig& config,
                                                       const EngineOptions& options,
                                                       const StepCapacity& capacity) {
  RETURN_IF_ERROR(Annotate(options.device->Supports(config, options), loader.folder()));
  auto decoder = std::unique_ptr<Decoder>(new Decoder(config, options, capacity));
  for (int layer = 0; layer < config.dims.layers; ++layer) {
    ASSIGN_OR_RETURN(BlockWeights weights, LoadBlock(loader, config, layer));
    const int window = config.sliding_windows[layer];
    const BlockShape shape = {.form = config.blocks,
                              .layer = layer,
                              .experts = config.expert_layers[layer],
                              .window = window,
                              .causal = window > 0 && config.drafter.dflash.causal_windows};
    decoder->blocks_.emplace_back(shape, std::move(weights));
  }
  ASSIGN_OR_RETURN(decoder->final_norm_, loader.LoadNorm(config.names.final_norm, config));
  RETURN_IF_ERROR(decoder->Allocate());
  RETURN_IF_ERROR(decoder->FillRotary());
  return decoder;
}

absl::Status Decoder::Allocate() {
  const ModelDims& dims = config_.dims;
  ASSIGN_OR_RETURN(cache_, KvCache::Create(device(),
                                           {dims.layers, dims.kv_heads, dims.head_dim,
                                            options_.formats.activations},
                                           capacity_.pages));
  ASSIGN_OR_RETURN(activations_, device().CreateActivations(config_, options_, capacity_));
  return absl::OkStatus();
}

absl::Status Decoder::FillRotary() {
  const int dims = config_.blocks.rope.dims;
  const size_t bytes = sizeof(float) * config_.max_positions * dims;
  constexpr char kWhat[] = "the rotary table";
  ASSIGN_OR_RETURN(const Device::Mirrored table, device().AllocateMirrored(bytes, kWhat));
  FillRotaryTable(config_, *device().host().pool, table.host.as<float>());
  device().Copy(table.device.data(), table.host.data(), bytes);
  rotary_ = table.device;
  std::vector<float> identity(dims, 0);
  std::fill_n(identity.begin(), dims / 2, 1.0f);
  ASSIGN_OR_RETURN(no_rotation_, device().Allocate(dims * sizeof(float), kWhat));
  ASSIGN_OR_RETURN(no_positions_, device().Allocate(capacity_.rows * sizeof(Position), kWhat));
  device().Copy(no_rotation_.data(), identity.data(), dims * sizeof(float));
  return device().Finish();
}

Tap Decoder::TapOf(int layer, const FeatureTaps& taps) const {
  const int width = config_.dims.hidden;
  for (size_t part = 0; part < taps.layers.size(); ++part) {
    if (taps.layers[part] != layer) continue;
    return {
        static_cast<char*>(taps.features) + Bytes(taps.type, static_cast<int64_t>(part) * width),
        static_cast<int>(taps.layers.size()) * width, taps.type};
  }
  return {};
}

template <typename Pass>
void Decoder::ForEachBlock(const kernels::Rows& rows, const FeatureTaps& taps, Pass pass) {
  kernels::Rows still = rows;
  still.positions = no_positions_.as<Position>();
  for (int layer = 0; layer < config_.dims.layers; ++layer) {
    const bool rotates = config_.blocks.rope.layers[layer];
    // A norm also stores the output of the block before it.
    pass(blocks_[layer], BlockPass{*activations_, rows, rotates ? rows : still,
                                   (rotates ? rotary_ : no_rotation_).as<float>(),
                                   cache_->layer(layer), TapOf(layer - 1, taps)});
    CountProgress();
  }
}

void Decoder::Forward(const kernels::Rows& rows, const FeatureTaps& taps) {
  ForEachBlock(rows, taps,
               [](const DecoderBlock& block, const BlockPass& pass) { block.Forward(pass); });
  activations_->Normalize(rows, final_norm_, TapOf(config_.dims.layers - 1, taps));
}

void Decoder::StoreContext(const kernels::Rows& rows) {
  ForEachBlock(rows, {},
               [](const DecoderBlock& block, const BlockPass& pass) { block.StoreContext(pass); });
}

ForwardCost Decoder::Cost() const {
  ForwardCost cost;
  for (const DecoderBlock& block : blocks_) block.AddCost(cost);
  const ModelDims& dims = config_.dims;
  const int64_t kv_elements = int64_t{2} * dims.layers * dims.kv_heads * dims.head_dim;
  cost.kv_bytes_per_token = static_cast<int64_t>(Bytes(options_.formats.activations, kv_elements));
  return cost;
}

}  // namespace bastion::nn
