#include "engine/model/norm.h"

namespace bastion::nn {

void RunNorm(const Device& device, const NormShape& shape, const NormWeights& weights,
             const NormRows& rows) {
  const float* const weight = weights.weight.as<float>();
  switch (shape.kind) {
    case hub::NormKind::kRms:
      device.backend->rms_norm({rows.x, weight, rows.y, rows.rows, shape.width, shape.epsilon},
                               *device.pool);
      return;
    case hub::NormKind::kLayer:
      device.backend->layer_norm(
          {rows.x, weight, weights.bias.as<float>(), rows.y, rows.rows, shape.width, shape.epsilon},
          *device.pool);
      return;
  }
}

}  // namespace bastion::nn
