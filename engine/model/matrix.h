// Weights in the memory of a device. Plain data.
#ifndef BASTION_ENGINE_MODEL_MATRIX_H_
#define BASTION_ENGINE_MODEL_MATRIX_H_

#include <cstddef>

#include "common/base/weight_format.h"
#include "common/hub/model_config.h"
#include "engine/model/buffer.h"

namespace bastion::nn {

// W [N, K] in the layout of its device, or `count` such matrices, one after the other.
struct Matrix {
  WeightFormat format = WeightFormat::kF32;
  int rows = 0;      // N
  int columns = 0;   // K
  int count = 1;     // E for the experts of a block
  size_t bytes = 0;  // Size of one matrix
  Buffer storage;
  Buffer bias;  // [N] floats, or no memory

  [[nodiscard]] bool empty() const { return rows == 0; }
  [[nodiscard]] char* data(int index = 0) const { return storage.as<char>() + index * bytes; }
};

// A norm over the hidden elements of rows.
struct Norm {
  hub::NormKind kind = hub::NormKind::kRms;
  float epsilon = 0;
  int width = 0;  // C
  Buffer weight;  // [C] floats
  Buffer bias;    // [C] floats; layer norms only
};

// The convolutions around a sublayer (hub::ConvolutionConfig): side 0 before it, side 1 after it.
struct Convolution {
  Matrix projection;  // [2 T G, C] with G = C / group: side, tap, group. Empty: no convolutions.
  Buffer base;        // [2, T, C] floats
};

}  // namespace bastion::nn

#endif  // BASTION_ENGINE_MODEL_MATRIX_H_
