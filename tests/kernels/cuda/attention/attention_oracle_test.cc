// Compares attention on the device with the oracle. The tolerance for fp32 is smaller than the
// error of the CPU kernels in long contexts, so on a GPU these tests need libtorch's oracle.
#include <algorithm>

#include "kernels/cuda/simt/warpgroup.h"
#include "tests/kernels/cuda/attention/attention_case.h"

namespace bastion::kernels::cuda {
namespace {

class DeviceAttentionOracleTest : public DeviceTest,
                                  public testing::WithParamInterface<AttentionShape> {
 protected:
  // Expects that padding rows are unchanged and that every other value is close to the oracle's.
  // The relative error of the whole output must be less than half the tolerance of one value.
  void ExpectOracle(DType dtype, int capability) {
    if (GetParam().large && device_.name == "emulator") GTEST_SKIP() << "too slow on the emulator";
    AttentionCase step(GetParam(), dtype);
    const std::vector<float> actual = step.Run(*stream_, device_.multiprocessors, capability),
                             expected = step.Expected();
    const float tolerance = dtype == DType::kF32 ? 2e-6f : 8e-3f;
    double error = 0, norm = 0;
    for (size_t i = 0; i < actual.size(); ++i) {
      ASSERT_NEAR(actual[i], expected[i], tolerance * (1 + std::abs(expected[i]))) << "at " << i;
      error += std::pow(actual[i] - expected[i], 2);
      norm += std::pow(expected[i], 2);
    }
    EXPECT_LT(std::sqrt(error / norm), tolerance / 2);
  }
};

TEST_P(DeviceAttentionOracleTest, Bf16AgreesWithTheOracle) {
  ExpectOracle(DType::kBF16, device_.capability);
}
TEST_P(DeviceAttentionOracleTest, Bf16WithoutWarpgroupsAgreesWithTheOracle) {
  if (!HasWarpgroups(device_.capability)) GTEST_SKIP() << "no warpgroups";
  ExpectOracle(DType::kBF16, 80);
}
TEST_P(DeviceAttentionOracleTest, Fp32AgreesWithTheOracle) {
  ExpectOracle(DType::kF32, device_.capability);
}

std::vector<AttentionShape> OracleShapes() {
  std::vector<AttentionShape> shapes = AttentionShapes();
  shapes.erase(std::remove_if(shapes.begin(), shapes.end(),
                              [](const auto& shape) { return !OracleSupports(shape.head_dim); }),
               shapes.end());
  return shapes;
}
INSTANTIATE_TEST_SUITE_P(Shapes, DeviceAttentionOracleTest, testing::ValuesIn(OracleShapes()),
                         [](const auto& shape) { return shape.param.name; });

}  // namespace
}  // namespace bastion::kernels::cuda
