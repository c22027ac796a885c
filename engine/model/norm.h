// Norms over the hidden elements of rows: RMS norm or layer norm, as the model's config says.
#ifndef BASTION_ENGINE_MODEL_NORM_H_
#define BASTION_ENGINE_MODEL_NORM_H_

#include "common/hub/model_config.h"
#include "engine/model/device.h"
#include "engine/model/weights.h"

namespace bastion::nn {

struct NormShape {
  hub::NormKind kind = hub::NormKind::kRms;
  int width = 0;  // C
  float epsilon = 0;
};

[[nodiscard]] inline NormShape NormOf(const hub::ModelConfig& config) {
  return {config.blocks.norm, config.dims.hidden, static_cast<float>(config.blocks.norm_epsilon)};
}

// Rows x [R, C], and where their norms go: y [R, C].
struct NormRows {
  const float* x = nullptr;
  int rows = 0;
  float* y = nullptr;
};

void RunNorm(const Device& device, const NormShape& shape, const NormWeights& weights,
             const NormRows& rows);

}  // namespace bastion::nn

#endif  // BASTION_ENGINE_MODEL_NORM_H_
