// Fixtures and shapes for tests of matrix products. The shapes cover every code path of the
// kernels.
#ifndef BASTION_TESTS_KERNELS_LINEAR_TEST_SUPPORT_H_
#define BASTION_TESTS_KERNELS_LINEAR_TEST_SUPPORT_H_

#include <gtest/gtest.h>

#include <memory>
#include <tuple>
#include <vector>

#include "kernels/cpu/kernels.h"
#include "tests/kernels/kernel_test_support.h"

namespace bastion::kernels {

struct Shape {
  int rows, outputs, depth;
};

class LinearTest : public testing::TestWithParam<std::tuple<Shape, WeightFormat>> {
 protected:
  void SetUp() override {
    std::tie(shape_, format_) = GetParam();
    x_ = RandomFloats(size_t(shape_.rows) * shape_.depth, 1);
    // linear() may round x to bf16, so use values that bf16 represents exactly.
    if (format_ == WeightFormat::kBF16) {
      for (float& value : x_) value = Bf16ToFloat(FloatToBf16(value));
    }
  }
  std::vector<float> Run(const Backend& backend, int threads, const float* x, int rows) {
    ThreadPool pool(threads);
    std::vector<float> y(size_t(rows) * shape_.outputs, 3.0f);
    backend.linear({x, matrix().packed, y.data(), rows, shape_.outputs, accumulate_,
                    bias_.empty() ? nullptr : bias_.data()},
                   pool);
    return y;
  }
  const RandomMatrix& matrix() {
    if (!matrix_)
      matrix_ = std::make_unique<RandomMatrix>(format_, shape_.outputs, shape_.depth, 2);
    return *matrix_;
  }
  Shape shape_;
  WeightFormat format_;
  bool accumulate_ = false;
  std::vector<float> bias_;  // [N], or empty
  std::vector<float> x_;
  std::unique_ptr<RandomMatrix> matrix_;
};

// Tests LinearTiles. On a CPU without matrix instructions, LinearTiles runs in plain C++.
class LinearTilesTest : public testing::TestWithParam<Shape> {
 protected:
  std::vector<float> Run(const RandomMatrix& matrix, const float* x, int rows, bool accumulate) {
    ThreadPool pool(2);
    std::vector<float> y(size_t(rows) * GetParam().outputs, 3.0f);
    cpu::LinearTiles({x, matrix.packed, y.data(), rows, GetParam().outputs, accumulate}, pool);
    return y;
  }
};

inline auto LinearShapes() {
  return testing::Values(Shape{1, 16, 8}, Shape{1, 200, 64}, Shape{2, 33, 17}, Shape{3, 320, 96},
                         Shape{5, 130, 64}, Shape{8, 256, 48}, Shape{17, 100, 31},
                         Shape{65, 80, 64});
}
inline auto LinearShapesAndTypes() {
  return testing::Combine(LinearShapes(), testing::ValuesIn(kWeightFormats));
}

}  // namespace bastion::kernels

#endif  // BASTION_TESTS_KERNELS_LINEAR_TEST_SUPPORT_H_
