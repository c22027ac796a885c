#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/cpu_backend.h"
#include "tests/kernels/linear_test_support.h"

namespace bastion::kernels {
namespace {

TEST_P(LinearTest, ARowHasTheSameBitsAloneAndInABatch) {
  ForEachInstructionSet([&](const char* name) {
    const std::vector<float> batched = Run(CpuBackend(), 2, x_.data(), shape_.rows);
    for (int r = 0; r < shape_.rows; ++r) {
      const std::vector<float> alone =
          Run(CpuBackend(), 1, x_.data() + size_t(r) * shape_.depth, 1);
      ASSERT_TRUE(
          SameBits(alone.data(), batched.data() + size_t(r) * shape_.outputs, shape_.outputs))
          << name << " row " << r;
    }
  });
}

// Row r of x is 1 at k = r and 0 elsewhere.
TEST_P(LinearTest, UnitRowsGiveTheColumnsOfTheMatrix) {
  const int rows = std::min(shape_.rows, shape_.depth);
  std::vector<float> units(size_t(rows) * shape_.depth);
  for (int r = 0; r < rows; ++r) units[size_t(r) * shape_.depth + r] = 1;
  for (const bool accumulate : {false, true}) {
    accumulate_ = accumulate;
    const float before = accumulate ? 3.0f : 0.0f;  // Run() initializes y to 3.
    ForEachInstructionSet([&](const char* name) {
      const std::vector<float> y = Run(CpuBackend(), 2, units.data(), rows);
      for (int r = 0; r < rows; ++r) {
        for (int n = 0; n < shape_.outputs; ++n) {
          ASSERT_NEAR(y[size_t(r) * shape_.outputs + n], before + matrix().element(n, r), 1e-6)
              << name << " row " << r << ", column " << n;
        }
      }
    });
  }
}

TEST_P(LinearTest, ABiasIsAddedToTheFinishedSums) {
  const std::vector<float> bias = RandomFloats(shape_.outputs, 3);
  for (const bool accumulate : {false, true}) {
    accumulate_ = accumulate;
    ForEachInstructionSet([&](const char* name) {
      bias_.clear();
      std::vector<float> expected = Run(CpuBackend(), 1, x_.data(), shape_.rows);
      for (size_t i = 0; i < expected.size(); ++i) expected[i] += bias[i % shape_.outputs];
      bias_ = bias;
      const std::vector<float> actual = Run(CpuBackend(), 2, x_.data(), shape_.rows);
      ASSERT_TRUE(SameBits(actual.data(), expected.data(), expected.size())) << name;
    });
  }
}

TEST_P(LinearTilesTest, ARowHasTheSameBitsAloneAndInABatch) {
  const auto [rows, outputs, depth] = GetParam();
  const RandomMatrix matrix(WeightFormat::kBF16, outputs, depth, 2);
  const std::vector<float> x = RandomFloats(size_t(rows) * depth, 1);
  const std::vector<float> batched = Run(matrix, x.data(), rows, false);
  for (int r = 0; r < rows; ++r) {
    const std::vector<float> alone = Run(matrix, x.data() + size_t(r) * depth, 1, false);
    ASSERT_TRUE(SameBits(alone.data(), batched.data() + size_t(r) * outputs, outputs)) << r;
  }
}

TEST(LinearTilesNanTest, ANanStaysInItsRow) {
  const int outputs = 40, depth = 65;
  const RandomMatrix matrix(WeightFormat::kBF16, outputs, depth, 2);
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
  const RandomMatrix exact(WeightFormat::kF32, outputs, depth, 2),
      rounded(WeightFormat::kInt8, outputs, depth, 2);
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

TEST(LinearInt8Test, GivesNansForNonFiniteRowsAndZerosForZeroRows) {
  const int outputs = 40, depth = 33;
  const RandomMatrix matrix(WeightFormat::kInt8, outputs, depth, 2);
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

INSTANTIATE_TEST_SUITE_P(Shapes, LinearTest, LinearShapesAndTypes());
INSTANTIATE_TEST_SUITE_P(Shapes, LinearTilesTest, LinearShapes());

}  // namespace
}  // namespace bastion::kernels
