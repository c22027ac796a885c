// Decoder: a stack of decoder blocks with its rotary table, KV cache and activations.
//
// Not thread-safe: one forward at a time.
#ifndef BASTION_ENGINE_MODEL_DECODER_H_
#define BASTION_ENGINE_MODEL_DECODER_H_

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/hub/model_config.h"
#include "engine/model/decoder_block.h"
#include "engine/model/kv_cache.h"

namespace bastion::nn {

// The layers whose outputs are features, and the memory that receives them.
struct FeatureTaps {
  std::vector<int> layers;
  void* features = nullptr;  // [R, F] of `type`, F = layers.size() * C
  DType type = DType::kF32;
};

// The capacity of a step of a model with `options`. A batch may hold trees of `tree_rows` rows.
[[nodiscard]] StepCapacity CapacityOf(const hub::ModelConfig& config, const EngineOptions& options,
                                      int tree_rows = 0);

class Decoder {
 public:
  // Loads the blocks and the final norm, by the names in config.names, and allocates memory for
  // steps of at most `capacity`. The matrices are empty until the loader's PackingPlan has run.
  // RESOURCE_EXHAUSTED if the device has too little memory; the errors of Device::Supports.
  static absl::StatusOr<std::unique_ptr<Decoder>> Load(const WeightLoader& loader,
                                                       const hub::ModelConfig& config,
                                                       const EngineOptions& options,
                                                       const StepCapacity& capacity);

  // Runs the residual stream through all blocks and norms it for Head(). Writes keys and values to
  // the cache.
  void Forward(const kernels::Rows& rows, const FeatureTaps& taps);
  // Writes keys and values of the normed rows to the cache of every layer; no query is computed for
  // them (DecoderBlock::StoreContext).
  void StoreContext(const kernels::Rows& rows);

  // The cost of all blocks, excluding the embedding and the LM head.
  [[nodiscard]] ForwardCost Cost() const;

  [[nodiscard]] Activations& activations() { return *activations_; }
  [[nodiscard]] KvCache& cache() { return *cache_; }
  [[nodiscard]] const hub::ModelConfig& config() const { return config_; }
  [[nodiscard]] const EngineOptions& options() const { return options_; }
  [[nodiscard]] Device& device() const { return *options_.device; }
  [[nodiscard]] const StepCapacity& capacity() const { return capacity_; }

 private:
  Decoder(const hub::ModelConfig& config, const EngineOptions& options,
          const StepCapacity& capacity)
      : config_(config), options_(options), capacity_(capacity) {}

  [[nodiscard]] absl::Status Allocate();
  [[nodiscard]] absl::Status FillRotary();
  // Calls pass(block, its arguments) for each block.
  template <typename Pass>
  void ForEachBlock(const kernels::Rows& rows, const FeatureTaps& taps, Pass pass);
  // Where the output of `layer` goes. Nowhere if the layer has no tap.
  [[nodiscard]] Tap TapOf(int layer, const FeatureTaps& taps) const;

  hub::ModelConfig config_;
  EngineOptions options_;
  StepCapacity capacity_;
  std::vector<DecoderBlock> blocks_;  // L
  Norm final_norm_;
  Buffer rotary_;  // [positions, rotated elements of a head]: cosines, then sines
  // For layers without rotary embedding: every row rotates like position 0 of a table without
  // scaling, so not at all.
  Buffer no_positions_, no_rotation_;  // [R] zeros; [rotated elements]: ones, then zeros
  std::unique_ptr<KvCache> cache_;
  std::unique_ptr<Activations> activations_;
};

}  // namespace bastion::nn

#endif  // BASTION_ENGINE_MODEL_DECODER_H_
