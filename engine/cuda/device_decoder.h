// DeviceDecoder: a stack of decoder blocks on a GPU, the counterpart of engine/model/decoder.h.
// Rows, cache and activations are in device memory. Every pass is enqueued on a stream and can be
// recorded as a graph. A step is one forward with its inputs and outputs.
//
// The residual stream is fp32. The inputs of matrix products have the type of the weights.
#ifndef BASTION_ENGINE_CUDA_DEVICE_DECODER_H_
#define BASTION_ENGINE_CUDA_DEVICE_DECODER_H_

#include <memory>
#include <vector>

#include "common/hub/model_config.h"
#include "engine/cuda/device_experts.h"
#include "engine/cuda/device_weights.h"
#include "engine/cuda/gpu.h"
#include "engine/cuda/step_inputs.h"

namespace bastion::cuda {

// The layers whose outputs are features, and the memory that receives them.
struct FeatureTaps {
  std::vector<int> layers;
  void* features = nullptr;  // [R, F] in the weights' type, F = layers.size() * C.
};

class DeviceDecoder {
 public:
  // Loads the blocks and the final norm, by the names in config.names, and allocates memory for
  // steps of at most `capacity`. `gpu` must outlive the decoder. RESOURCE_EXHAUSTED if the device
  // has too little memory, UNIMPLEMENTED for head counts or widths that the kernels do not support.
  static absl::StatusOr<std::unique_ptr<DeviceDecoder>> Load(DeviceLoader& loader,
                                                             const hub::ModelConfig& config,
                                                             const StepCapacity& capacity,
                                                             Gpu& gpu);

  // Runs hidden() through all blocks, in place. Writes keys and values to the cache and the output
  // of the final norm to normed().
  void Forward(const kernels::cuda::StepRows& rows, const FeatureTaps& taps);
  // Writes keys and values of `context` [R, C], in the weights' type, to the cache; no query is
  // computed for these rows.
  void StoreContext(const kernels::cuda::StepRows& rows, const void* context);

  // Tunes the matrix products of Forward for `rows` rows and, if `with_context`, those of
  // StoreContext.
  [[nodiscard]] absl::Status Prepare(int rows, bool with_context);

  [[nodiscard]] float* hidden() const { return hidden_.as<float>(); }  // [R, C]
  // [R, C] in the weights' type.
  [[nodiscard]] void* normed() const { return normed_.as<void>(); }
  // The KV caches of the layers: an array [L] in device memory.
  [[nodiscard]] const kernels::cuda::DeviceKvLayer* layers() const {
    return layer_table_.as<kernels::cuda::DeviceKvLayer>();
  }
  // Experts that the rows of the last step chose (DeviceExperts::touched).
  [[nodiscard]] double touched_experts() const { return experts_.touched(); }
  [[nodiscard]] const hub::ModelConfig& config() const { return config_; }
  [[nodiscard]] DType dtype() const { return dtype_; }
  // The cost of all blocks, excluding the embedding and the LM head.
  [[nodiscard]] nn::ForwardCost Cost() const;

 private:
  DeviceDecoder(const hub::ModelConfig& config, DType dtype, Gpu& gpu)
      : config_(config), dtype_(dtype), gpu_(gpu) {}

  [[nodiscard]] absl::Status Allocate(const StepCapacity& capacity);
  [[nodiscard]] absl::Status FillRotary();
  // normed() = norm(hidden()). Also stores hidden() at `tap`, unless it is null.
  void Norm(const DeviceNorm& weights, void* tap, int tap_stride, int rows) const;
  void Multiply(const DeviceMatrix& weight, const void* x, float* y, int rows,
                bool accumulate) const;
  void RunBlock(int layer, const kernels::cuda::StepRows& rows);
  // Attention of the normed rows, from kvq_ to attention_.
  void Attend(int layer, const kernels::cuda::StepRows& rows);
  // hidden() += mlp(normed()).
  void AddMlp(const DeviceBlock& block, int rows);
  [[nodiscard]] kernels::cuda::QkvArgs QkvOf(int layer, const kernels::cuda::StepRows& rows) const;
  // The memory that receives the output of `layer` as features. Null if the layer has no tap.
  [[nodiscard]] void* TapOf(int layer, const FeatureTaps& taps) const;

  hub::ModelConfig config_;
  DType dtype_;
  Gpu& gpu_;
  std::vector<DeviceBlock> blocks_;  // L
  DeviceNorm final_norm_;
  Memory rope_;                // [positions, rotated elements of a head]: cosines, then sines
  std::vector<Memory> cache_;  // L x [2, pages, G, 16, D]: keys, then values
  std::vector<kernels::cuda::DeviceKvLayer> kv_layers_;  // L
  Memory layer_table_;                                   // A copy of kv_layers_ on the device.
  DeviceExperts experts_;
  Memory hidden_, normed_, kvq_, query_, attention_, gate_up_, activation_, scratch_;
};

// Computes y [R, N] = x Wᵀ for a matrix that is not part of a block. PrepareProduct tunes it; call
// it first.
void RunProduct(const DeviceMatrix& weight, const void* x, float* y, int rows, Gpu& gpu);
[[nodiscard]] absl::Status PrepareProduct(const DeviceMatrix& weight, const void* x, float* y,
                                          int rows, Gpu& gpu);
// Adds the bytes and the multiply-adds of `matrix` to `cost`.
void AddCost(const DeviceMatrix& matrix, nn::ForwardCost& cost);

}  // namespace bastion::cuda

#endif  // BASTION_ENGINE_CUDA_DEVICE_DECODER_H_
