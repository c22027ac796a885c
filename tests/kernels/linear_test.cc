#include <gtest/gtest.h>

#include "tests/kernels/kernel_test_support.h"

namespace bastion::kernels {
namespace {

struct Shape {
  int rows, outputs, depth;
};

class LinearTest : public testing::TestWithParam<std::tuple<Shape, DType>> {
 protected:
  void SetUp() override {
    std::tie(shape_, dtype_) = GetParam();
    x_ = RandomFloats(size_t(shape_.rows) * shape_.depth, 1);
  }
  std::vector<float> Run(const Backend& backend, int threads, const float* x, int rows) {
    ThreadPool pool(threads);
    std::vector<float> y(size_t(rows) * shape_.outputs, 3.0f);
    backend.linear({x, matrix().packed, y.data(), rows, shape_.outputs, accumulate_}, pool);
    return y;
  }
  const RandomMatrix& matrix() {
    if (!matrix_) matrix_ = std::make_unique<RandomMatrix>(dtype_, shape_.outputs, shape_.depth, 2);
    return *matrix_;
  }
  Shape shape_;
  DType dtype_;
  bool accumulate_ = false;
  std::vector<float> x_;
  std::unique_ptr<RandomMatrix> matrix_;
};

TEST_P(LinearTest, AgreesWithReferenceOnEveryInstructionSet) {
  for (const bool accumulate : {false, true}) {
    accumulate_ = accumulate;
    const std::vector<float> expected = Run(ReferenceBackend(), 1, x_.data(), shape_.rows);
    ForEachInstructionSet([&](const char* name) {
      const std::vector<float> actual = Run(CpuBackend(), 2, x_.data(), shape_.rows);
      for (size_t i = 0; i < actual.size(); ++i) {
        ASSERT_NEAR(actual[i], expected[i], 2e-5 * (1 + std::abs(expected[i]))) << name << " " << i;
      }
    });
  }
}

TEST_P(LinearTest, ARowHasTheSameBitsAloneAndInCompany) {
  ForEachInstructionSet([&](const char* name) {
    const std::vector<float> together = Run(CpuBackend(), 2, x_.data(), shape_.rows);
    for (int r = 0; r < shape_.rows; ++r) {
      const std::vector<float> alone =
          Run(CpuBackend(), 1, x_.data() + size_t(r) * shape_.depth, 1);
      ASSERT_TRUE(
          SameBits(alone.data(), together.data() + size_t(r) * shape_.outputs, shape_.outputs))
          << name << " row " << r;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Shapes, LinearTest,
                         testing::Combine(testing::Values(Shape{1, 16, 8}, Shape{1, 200, 64},
                                                          Shape{2, 33, 17}, Shape{3, 320, 96},
                                                          Shape{5, 130, 64}, Shape{8, 256, 48},
                                                          Shape{17, 100, 31}, Shape{65, 80, 64}),
                                          testing::Values(DType::kF32, DType::kBF16)));

}  // namespace
}  // namespace bastion::kernels
