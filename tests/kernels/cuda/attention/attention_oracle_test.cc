// Attention on the device against the oracle. fp32 results may differ by less than the CPU's
// kernels themselves err in long contexts: for a GPU these tests are built with libtorch only.
#include <algorithm>

#include "tests/kernels/cuda/attention/attention_case.h"

namespace bastion::kernels::cuda {
namespace {

class DeviceAttentionOracleTest : public DeviceTest,
                                  public testing::WithParamInterface<AttentionShape> {
 protected:
  // Padding rows keep what they had; others are near the oracle, and nearer still on the whole.
  void ExpectOracle(DType dtype) {
    if (GetParam().large && device_.name == "emulator") GTEST_SKIP() << "for a GPU";
    AttentionCase step(GetParam(), dtype);
    const std::vector<float> actual = step.Run(*stream_, device_.multiprocessors),
                             expected = step.Expected();
    const float tolerance = dtype == DType::kF32 ? 2e-6f : 8e-3f;
    double error = 0, norm = 0;
    for (size_t i = 0; i < actual.size(); ++i) {
      ASSERT_NEAR(actual[i], expected[i], tolerance * (1 + std::abs(expected[i]))) << "at " << i;
      error += std::pow(actual[i] - expected[i], 2);
      norm += std::pow(expected[i], 2);
    }
    EXPECT_LT(std::sqrt(error / norm), tolerance / 2);
    EXPECT_TRUE(step.CountersAreZero());
  }
};

TEST_P(DeviceAttentionOracleTest, HalvesAgreeWithTheOracle) { ExpectOracle(DType::kBF16); }
TEST_P(DeviceAttentionOracleTest, FloatsAgreeWithTheOracle) { ExpectOracle(DType::kF32); }

std::vector<AttentionShape> OracleShapes() {
  std::vector<AttentionShape> shapes = AttentionShapes();
  shapes.erase(std::remove_if(shapes.begin(), shapes.end(),
                              [](const auto& shape) { return !OracleTakes(shape.head_dim); }),
               shapes.end());
  return shapes;
}
INSTANTIATE_TEST_SUITE_P(Shapes, DeviceAttentionOracleTest, testing::ValuesIn(OracleShapes()),
                         [](const auto& shape) { return shape.param.name; });

}  // namespace
}  // namespace bastion::kernels::cuda
