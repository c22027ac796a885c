// TestWeights: weights of a product, as values and as the memory of a device.
#ifndef BASTION_TESTS_KERNELS_CUDA_PRODUCT_TEST_WEIGHTS_H_
#define BASTION_TESTS_KERNELS_CUDA_PRODUCT_TEST_WEIGHTS_H_

#include <cstring>
#include <vector>

#include "common/base/weight_format.h"
#include "kernels/cuda/product/int8_rows.h"
#include "kernels/cuda/product/pack_int8.h"
#include "kernels/ops/round_int8.h"
#include "tests/kernels/cuda/device_test_support.h"

namespace bastion::kernels::cuda {

struct TestWeights {
  WeightFormat format = WeightFormat::kBF16;  // Or int8.
  std::vector<float> values;                  // [E, N, K], rounded.
  std::vector<char> memory;                   // The E matrices.
};

inline TestWeights Bf16Weights(const std::vector<float>& from) {
  const std::vector<uint16_t> rounded = ToBf16(from);
  TestWeights weights = {WeightFormat::kBF16, {}, {}};
  for (const uint16_t value : rounded) weights.values.push_back(Bf16ToFloat(value));
  weights.memory.resize(rounded.size() * sizeof(uint16_t));
  std::memcpy(weights.memory.data(), rounded.data(), weights.memory.size());
  return weights;
}

// Matrices of N = `columns` and K = `depth`.
inline TestWeights Int8Weights(const std::vector<float>& from, int columns, int depth) {
  TestWeights weights = {WeightFormat::kInt8, {}, {}};
  const size_t pitch = Int8Pitch(depth), matrix = Int8MatrixBytes(columns, depth);
  const auto rows = static_cast<int>(from.size() / depth);
  weights.memory.resize(rows / columns * matrix);
  std::vector<uint8_t> arranged(pitch);
  std::vector<int8_t> integers(depth);
  for (int row = 0; row < rows; ++row) {
    const SourceMatrix source = {DType::kF32, from.data(), rows};
    float scale = RoundRow(source, row, depth, integers.data());
    for (const int8_t integer : integers) weights.values.push_back(scale * integer);
    PackInt8({source, row, 1, depth}, arranged.data(), &scale);
    char* const begin = &weights.memory[row / columns * matrix];
    std::memcpy(begin + row % columns * pitch, arranged.data(), pitch);
    std::memcpy(begin + Int8ScalesOffset(columns, depth) + row % columns * sizeof(float), &scale,
                sizeof(float));
  }
  return weights;
}

inline TestWeights WeightsIn(WeightFormat format, const std::vector<float>& from, int columns,
                             int depth) {
  return format == WeightFormat::kInt8 ? Int8Weights(from, columns, depth) : Bf16Weights(from);
}

}  // namespace bastion::kernels::cuda

#endif  // BASTION_TESTS_KERNELS_CUDA_PRODUCT_TEST_WEIGHTS_H_
