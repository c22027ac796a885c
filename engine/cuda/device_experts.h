// DeviceExperts: the scratch memory of a decoder's mixtures of experts on a GPU, and their passes
// (engine/model/experts.h). Every pass is enqueued on a stream and can be recorded as a graph.
#ifndef BASTION_ENGINE_CUDA_DEVICE_EXPERTS_H_
#define BASTION_ENGINE_CUDA_DEVICE_EXPERTS_H_

#include "absl/status/statusor.h"
#include "common/hub/model_config.h"
#include "engine/cuda/device_weights.h"
#include "engine/cuda/gpu.h"
#include "kernels/cuda/ops.h"

namespace bastion::cuda {

class DeviceExperts {
 public:
  DeviceExperts() = default;  // For a model without experts.

  // Memory for steps of at most `rows` rows. UNIMPLEMENTED for numbers or widths that the kernels
  // do not support.
  [[nodiscard]] static absl::StatusOr<DeviceExperts> Create(const hub::ModelConfig& config,
                                                            DType dtype, int rows);

  // The rows of a step, their norms [R, C] in the weights' type, and the rows [R, C] to which the
  // results are added.
  struct Pass {
    const kernels::cuda::StepRows& rows;
    const void* normed = nullptr;
    float* hidden = nullptr;
  };
  // hidden += mixture(normed), for block `layer`.
  void Add(const DeviceBlock& block, int layer, const Pass& pass, Gpu& gpu);

  // Tunes the product of the router for `rows` rows. Reads `normed` and overwrites scratch memory.
  [[nodiscard]] absl::Status Prepare(const DeviceBlock& block, const void* normed, int rows,
                                     Gpu& gpu);

  // The experts that the rows of the last step chose, distinct ones of a layer, as a mean over the
  // layers with experts. 0 for a model without experts. Valid after the step.
  [[nodiscard]] double touched() const;

 private:
  [[nodiscard]] kernels::cuda::ExpertProductArgs ProductOf(const DeviceMatrix& matrices) const;

  hub::ExpertsConfig config_;
  std::vector<bool> layers_;  // Whether a layer has experts.
  DType dtype_ = DType::kF32;
  Memory logits_, weights_;                     // [R, E], [R, k]
  Memory experts_, begins_, sources_, places_;  // [R, k], [E + 1], [R k], [R, k]
  Memory gate_up_, activation_, outputs_;       // [R k, 2 I], [R k, I], [R k, C]
  Memory touched_;                              // [L], host memory
};

}  // namespace bastion::cuda

#endif  // BASTION_ENGINE_CUDA_DEVICE_EXPERTS_H_
