#include "tools/train/loop/optimizer.h"
// After torch.h.
#include <gtest/gtest.h>

#include <cmath>

#include "tools/train/loop/schedule.h"
#include "tools/train/models/products.h"

namespace bastion::train {
namespace {

TEST(OptimizerTest, OrthogonalizedMatricesHaveSingularValuesNearOne) {
  at::set_num_threads(1);
  Parameters parameters(/*seed=*/1);
  for (const auto& [rows, columns] : {std::pair(12, 20), std::pair(20, 12)}) {
    const at::Tensor matrices =
        at::stack({parameters.AddMap("a", rows, columns), parameters.AddMap("b", rows, columns)})
            .detach();
    for (const bool bf16 : {false, true}) {
      const Bf16Products products(bf16);
      const at::Tensor orthogonal = Orthogonalize(matrices);
      EXPECT_EQ(orthogonal.scalar_type(), at::kFloat);
      const at::Tensor values = at::linalg_svdvals(orthogonal);
      EXPECT_GT(values.min().item<float>(), 0.6);
      EXPECT_LT(values.max().item<float>(), 1.3);
    }
  }
}

// The first step of AdamW moves every element by the learning rate.
TEST(OptimizerTest, TheFirstStepOfAVectorIsTheRateAgainstTheGradient) {
  at::set_num_threads(1);
  Parameters parameters(1);
  const at::Tensor vector = parameters.AddOnes("v", 3);
  Optimizer optimizer(parameters, {.vector_rate = 0.5});
  (vector * at::tensor({2.f, -3.f, 0.1f})).sum().backward();
  const double norm = optimizer.Step(/*rate=*/0.1);
  EXPECT_NEAR(norm, std::sqrt(4 + 9 + 0.01), 1e-5);
  EXPECT_TRUE(at::allclose(vector.detach(), at::tensor({0.95f, 1.05f, 0.95f}), 1e-4, 1e-6));
  EXPECT_FALSE(vector.grad().defined());
}

// The second step, by hand: m = 0.9 m + 0.1 g and v = 0.95 v + 0.05 g², both without their bias.
TEST(OptimizerTest, TheSecondStepOfAVectorUsesBothMoments) {
  at::set_num_threads(1);
  Parameters parameters(1);
  const at::Tensor vector = parameters.AddOnes("v", 1);
  Optimizer optimizer(parameters, {.vector_rate = 1});
  for (const float gradient : {1.f, 3.f}) {
    (vector * gradient).sum().backward();
    (void)optimizer.Step(1);
  }
  const double m = (0.9 * 0.1 + 0.1 * 3) / (1 - 0.9 * 0.9);
  const double v = (0.95 * 0.05 + 0.05 * 9) / (1 - 0.95 * 0.95);
  EXPECT_NEAR(vector.item<float>(), 1 - 1 - m / std::sqrt(v), 1e-5);
}

TEST(OptimizerTest, GradientsAboveTheClipAreScaledTogether) {
  at::set_num_threads(1);
  Parameters parameters(1);
  const at::Tensor a = parameters.AddOnes("a", 1);
  const at::Tensor b = parameters.AddOnes("b", 1);
  Optimizer optimizer(parameters, {.clip = 1});
  (3 * a + 4 * b).sum().backward();
  EXPECT_NEAR(optimizer.Step(1), 5, 1e-5);
  const auto moment = [&](const std::string& name) {
    for (const Optimizer::Moment& entry : optimizer.moments()) {
      if (entry.name == name) return entry.value.item<float>();
    }
    return -1.f;
  };
  EXPECT_NEAR(moment("first.a"), 0.1 * 0.6, 1e-6);
  EXPECT_NEAR(moment("first.b"), 0.1 * 0.8, 1e-6);
}

TEST(ScheduleTest, TheRateRisesStaysAndFallsToZero) {
  const Schedule schedule = {.warm_up = 0.1, .decay_from = 0.5};
  EXPECT_GT(schedule.RateAt(0), 0);
  EXPECT_DOUBLE_EQ(schedule.RateAt(0.05), 0.5);
  EXPECT_DOUBLE_EQ(schedule.RateAt(0.3), 1);
  EXPECT_DOUBLE_EQ(schedule.RateAt(0.75), 0.5);
  EXPECT_DOUBLE_EQ(schedule.RateAt(1), 0);
}

}  // namespace
}  // namespace bastion::train
