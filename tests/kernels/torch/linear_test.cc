#include <cmath>

#include "tests/kernels/linear_test_support.h"
#include "tests/kernels/torch/compared_backends.h"

namespace bastion::kernels {
namespace {

TEST_P(LinearTest, AgreesWithTheOracle) {
  for (const bool accumulate : {false, true}) {
    accumulate_ = accumulate;
    // Half of the products have a bias.
    bias_ = accumulate ? RandomFloats(shape_.outputs, 3) : std::vector<float>();
    const std::vector<float> expected = Run(TorchOracle(), 1, x_.data(), shape_.rows);
    ForEachComparedBackend([&](const Backend& backend, const char* name) {
      const std::vector<float> actual = Run(backend, 2, x_.data(), shape_.rows);
      for (size_t i = 0; i < actual.size(); ++i) {
        ASSERT_NEAR(actual[i], expected[i], 2e-5 * (1 + std::abs(expected[i]))) << name << " " << i;
      }
    });
  }
}

TEST_P(LinearTilesTest, AgreesWithTheOracleOnRoundedRows) {
  const auto [rows, outputs, depth] = GetParam();
  const RandomMatrix matrix(WeightFormat::kBF16, outputs, depth, 2);
  const std::vector<float> x = RandomFloats(size_t(rows) * depth, 1);
  std::vector<float> rounded;
  for (const float value : x) rounded.push_back(Bf16ToFloat(FloatToBf16(value)));
  for (const bool accumulate : {false, true}) {
    std::vector<float> expected(size_t(rows) * outputs, 3.0f);
    ThreadPool pool(1);
    TorchOracle().linear(
        {rounded.data(), matrix.packed, expected.data(), rows, outputs, accumulate}, pool);
    const std::vector<float> actual = Run(matrix, x.data(), rows, accumulate);
    for (size_t i = 0; i < actual.size(); ++i) {
      ASSERT_NEAR(actual[i], expected[i], 2e-5 * (1 + std::abs(expected[i]))) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, LinearTest, LinearShapesAndTypes());
INSTANTIATE_TEST_SUITE_P(Shapes, LinearTilesTest, LinearShapes());

}  // namespace
}  // namespace bastion::kernels
