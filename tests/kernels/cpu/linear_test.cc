#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/cpu/kernels.h"
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
    // linear() may round x to bf16, so round it before.
    if (dtype_ == DType::kBF16) {
      for (float& value : x_) value = Bf16ToFloat(FloatToBf16(value));
    }
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

TEST_P(LinearTest, AgreesWithTheReferenceOnEveryInstructionSet) {
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

TEST_P(LinearTest, ARowHasTheSameBitsAloneAndInABatch) {
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

// On a CPU without matrix instructions, this runs the implementation without them.
class LinearTilesTest : public testing::TestWithParam<Shape> {
 protected:
  std::vector<float> Run(const RandomMatrix& matrix, const float* x, int rows, bool accumulate) {
    ThreadPool pool(2);
    std::vector<float> y(size_t(rows) * GetParam().outputs, 3.0f);
    cpu::LinearTiles({x, matrix.packed, y.data(), rows, GetParam().outputs, accumulate}, pool);
    return y;
  }
};

TEST_P(LinearTilesTest, AgreesWithTheReferenceOnRoundedRows) {
  const auto [rows, outputs, depth] = GetParam();
  const RandomMatrix matrix(DType::kBF16, outputs, depth, 2);
  const std::vector<float> x = RandomFloats(size_t(rows) * depth, 1);
  std::vector<float> rounded;
  for (const float value : x) rounded.push_back(Bf16ToFloat(FloatToBf16(value)));
  for (const bool accumulate : {false, true}) {
    std::vector<float> expected(size_t(rows) * outputs, 3.0f);
    ThreadPool pool(1);
    ReferenceBackend().linear(
        {rounded.data(), matrix.packed, expected.data(), rows, outputs, accumulate}, pool);
    const std::vector<float> actual = Run(matrix, x.data(), rows, accumulate);
    for (size_t i = 0; i < actual.size(); ++i) {
      ASSERT_NEAR(actual[i], expected[i], 2e-5 * (1 + std::abs(expected[i]))) << i;
    }
  }
}

TEST_P(LinearTilesTest, ARowHasTheSameBitsAloneAndInABatch) {
  const auto [rows, outputs, depth] = GetParam();
  const RandomMatrix matrix(DType::kBF16, outputs, depth, 2);
  const std::vector<float> x = RandomFloats(size_t(rows) * depth, 1);
  const std::vector<float> together = Run(matrix, x.data(), rows, false);
  for (int r = 0; r < rows; ++r) {
    const std::vector<float> alone = Run(matrix, x.data() + size_t(r) * depth, 1, false);
    ASSERT_TRUE(SameBits(alone.data(), together.data() + size_t(r) * outputs, outputs)) << r;
  }
}

TEST(LinearTilesNanTest, ANanAffectsOnlyItsRow) {
  const int outputs = 40, depth = 65;
  const RandomMatrix matrix(DType::kBF16, outputs, depth, 2);
  std::vector<float> x = RandomFloats(size_t(2) * depth, 1), y(size_t(2) * outputs);
  x[64] = std::numeric_limits<float>::quiet_NaN();
  ThreadPool pool(1);
  cpu::LinearTiles({x.data(), matrix.packed, y.data(), 2, outputs, false}, pool);
  for (int n = 0; n < outputs; ++n) {
    EXPECT_TRUE(std::isnan(y[n]));
    EXPECT_TRUE(std::isfinite(y[outputs + n]));
  }
}

TEST(LinearInt8Test, RoundingErrorIsSmall) {
  const int rows = 4, outputs = 96, depth = 320;
  const std::vector<float> x = RandomFloats(size_t(rows) * depth, 1);
  const RandomMatrix exact(DType::kF32, outputs, depth, 2),
      rounded(DType::kInt8, outputs, depth, 2);
  std::vector<float> y(size_t(rows) * outputs), z(y.size());
  ThreadPool pool(1);
  CpuBackend().linear({x.data(), exact.packed, y.data(), rows, outputs, false}, pool);
  CpuBackend().linear({x.data(), rounded.packed, z.data(), rows, outputs, false}, pool);
  double error = 0, size = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    error += (y[i] - z[i]) * (y[i] - z[i]);
    size += y[i] * y[i];
  }
  EXPECT_LT(std::sqrt(error / size), 0.02);
  EXPECT_GT(error, 0);
}

TEST(LinearInt8Test, ANonFiniteRowGivesNansAndAZeroRowGivesZeros) {
  const int outputs = 40, depth = 33;
  const RandomMatrix matrix(DType::kInt8, outputs, depth, 2);
  std::vector<float> x = RandomFloats(size_t(4) * depth, 1);
  x[5] = std::numeric_limits<float>::quiet_NaN();
  x[depth + 7] = std::numeric_limits<float>::infinity();
  std::fill_n(x.begin() + 2 * depth, depth, 0.0f);
  ThreadPool pool(1);
  ForEachInstructionSet([&](const char* name) {
    std::vector<float> y(size_t(4) * outputs, 1.0f);
    CpuBackend().linear({x.data(), matrix.packed, y.data(), 4, outputs, false}, pool);
    for (int n = 0; n < outputs; ++n) {
      EXPECT_TRUE(std::isnan(y[n])) << name;
      EXPECT_TRUE(std::isnan(y[outputs + n])) << name;
      EXPECT_EQ(y[2 * outputs + n], 0.0f) << name;
      EXPECT_TRUE(std::isfinite(y[3 * outputs + n])) << name;
    }
  });
}

const auto kShapes =
    testing::Values(Shape{1, 16, 8}, Shape{1, 200, 64}, Shape{2, 33, 17}, Shape{3, 320, 96},
                    Shape{5, 130, 64}, Shape{8, 256, 48}, Shape{17, 100, 31}, Shape{65, 80, 64});
INSTANTIATE_TEST_SUITE_P(Shapes, LinearTest,
                         testing::Combine(kShapes, testing::Values(DType::kF32, DType::kBF16,
                                                                   DType::kInt8)));
INSTANTIATE_TEST_SUITE_P(Shapes, LinearTilesTest, kShapes);

}  // namespace
}  // namespace bastion::kernels
