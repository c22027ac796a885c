// A stack of decoder blocks on a GPU: common/nn/decoder.h with its rows, cache and activations in
// device memory, and every pass put on a stream, to be recorded.
//
// The residual stream is fp32; what a matrix takes is of the weights' type.
#ifndef BASTION_COMMON_CUDA_DEVICE_DECODER_H_
#define BASTION_COMMON_CUDA_DEVICE_DECODER_H_

#include <memory>
#include <string>
#include <vector>

#include "common/cuda/device_weights.h"
#include "common/cuda/gpu.h"
#include "common/cuda/step_inputs.h"
#include "common/hub/model_config.h"

namespace bastion::cuda {

// Which layers' outputs are features, and where they go.
struct FeatureTaps {
  std::vector<int> layers;
  void* features = nullptr;  // [R, F] of the weights' type, F = layers.size() * C.
};

class DeviceDecoder {
 public:
  // Blocks named `prefix` + "layers.N.", for steps of at most `capacity`, on `gpu`, which must
  // outlive it. RESOURCE_EXHAUSTED where the device's memory does not suffice, UNIMPLEMENTED for
  // heads that the kernels do not take.
  static absl::StatusOr<std::unique_ptr<DeviceDecoder>> Load(DeviceLoader& loader,
                                                             const hub::ModelConfig& config,
                                                             const std::string& prefix,
                                                             const StepCapacity& capacity,
                                                             Gpu& gpu);

  // Hidden rows [R, C] of floats, in place; keys and values go to the cache. normed [R, C] is what
  // the final norm makes of them, in the weights' type.
  void Forward(const kernels::cuda::StepRows& rows, const FeatureTaps& taps);
  // Keys and values of context rows [R, C], in the weights' type, that are attended from by nobody.
  void StoreContext(const kernels::cuda::StepRows& rows, const void* context);

  // Finds the best way to multiply `rows` rows, for Forward (and StoreContext).
  [[nodiscard]] absl::Status Prepare(int rows, bool with_context);

  [[nodiscard]] float* hidden() const { return hidden_.as<float>(); }  // [R, C]
  [[nodiscard]] void* normed() const { return normed_.as<void>(); }    // [R, C]
  // One entry a layer, in device memory.
  [[nodiscard]] const kernels::cuda::DeviceKvLayer* layers() const {
    return layer_table_.as<kernels::cuda::DeviceKvLayer>();
  }
  [[nodiscard]] const hub::ModelConfig& config() const { return config_; }
  [[nodiscard]] DType dtype() const { return dtype_; }
  // Of all blocks; the vocabulary's ends left out.
  [[nodiscard]] nn::ForwardCost Cost() const;

 private:
  DeviceDecoder(const hub::ModelConfig& config, DType dtype, Gpu& gpu)
      : config_(config), dtype_(dtype), gpu_(gpu) {}

  [[nodiscard]] absl::Status Allocate(const StepCapacity& capacity);
  [[nodiscard]] absl::Status FillRotary();
  void Norm(const Memory& weight, void* tap, int tap_stride, int rows) const;
  void Multiply(const DeviceMatrix& weight, const void* x, float* y, int rows,
                bool accumulate) const;
  void RunBlock(int layer, const kernels::cuda::StepRows& rows);
  [[nodiscard]] kernels::cuda::QkvArgs QkvOf(int layer, const kernels::cuda::StepRows& rows) const;
  // Where the output of `layer` is tapped to, or null.
  [[nodiscard]] void* TapOf(int layer, const FeatureTaps& taps) const;

  hub::ModelConfig config_;
  DType dtype_;
  Gpu& gpu_;
  std::vector<DeviceBlock> blocks_;  // L
  Memory final_norm_;                // [C]
  Memory rope_;                      // [positions, D]
  std::vector<Memory> cache_;        // L x [2, pages, G, 16, D]: keys, then values
  std::vector<kernels::cuda::DeviceKvLayer> kv_layers_;  // L
  Memory layer_table_;                                   // The same on the device
  Memory hidden_, normed_, kvq_, query_, attention_, gate_up_, activation_, scratch_;
};

// y [R, N] = x Wᵀ of a matrix beside the blocks, and finding the best way to it.
void PutProduct(const DeviceMatrix& weight, const void* x, float* y, int rows, Gpu& gpu);
[[nodiscard]] absl::Status PrepareProduct(const DeviceMatrix& weight, const void* x, float* y,
                                          int rows, Gpu& gpu);
void AddCost(const DeviceMatrix& matrix, nn::ForwardCost& cost);

}  // namespace bastion::cuda

#endif  // BASTION_COMMON_CUDA_DEVICE_DECODER_H_
