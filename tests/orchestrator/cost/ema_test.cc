#include "orchestrator/cost/ema.h"

#include <cmath>
#include <memory>

#include "gtest/gtest.h"
#include "orchestrator/cost/static_fit.h"
#include "tests/orchestrator/cost/tiny_model.h"

namespace bastion {
namespace {

using ::bastion::testing::TinyRoofline;

// TinyRoofline() takes 2.284 s for 3 rows over 7 cached tokens, and 1.02 s for 1 row over none
// (roofline_test.cc).
EmaEstimator OverRoofline(EmaEstimator::Start start) {
  return EmaEstimator("ema", std::make_unique<StaticFit>(TinyRoofline()), start);
}

TEST(EmaTest, FirstObservationSetsTheFactor) {
  EmaEstimator ema = OverRoofline(EmaEstimator::Start::kFirstObservation);
  EXPECT_EQ(ema.Predict(3, 7), absl::Seconds(2.284));
  ema.Observe(3, 7, absl::Seconds(4.568));
  EXPECT_DOUBLE_EQ(ema.factor(), 2.0);
  EXPECT_NEAR(absl::ToDoubleSeconds(ema.Predict(1, 0)), 2.04, 1e-9);
}

TEST(EmaTest, LaterObservationsMoveTheFactorByAlpha) {
  EmaEstimator ema = OverRoofline(EmaEstimator::Start::kFirstObservation);
  ema.Observe(1, 0, absl::Seconds(2.04));  // k = 2
  ema.Observe(1, 0, absl::Seconds(3.06));  // k = 0.9·2 + 0.1·3
  EXPECT_NEAR(ema.factor(), 2.1, 1e-9);
  ema.Observe(3, 7, absl::Seconds(2.284));  // k = 0.9·2.1 + 0.1·1
  EXPECT_NEAR(ema.factor(), 1.99, 1e-9);
}

TEST(EmaTest, ConvergesToASteadyRatio) {
  EmaEstimator ema = OverRoofline(EmaEstimator::Start::kCalibrated);
  for (int i = 0; i < 40; ++i) ema.Observe(3, 7, absl::Seconds(3 * 2.284));
  // Each observation shrinks the distance by a factor of 0.9: 2·0.9^40 = 0.0296.
  EXPECT_NEAR(ema.factor(), 3 - 2 * std::pow(0.9, 40), 1e-6);
}

TEST(EmaTest, OverACalibratedCurveTheFactorStartsAtOne) {
  EmaEstimator ema = OverRoofline(EmaEstimator::Start::kCalibrated);
  ema.Observe(1, 0, absl::Seconds(2.04));
  EXPECT_NEAR(ema.factor(), 0.9 + 0.1 * 2, 1e-9);
}

TEST(EmaTest, IgnoresTimesThatAreNotPositive) {
  EmaEstimator ema = OverRoofline(EmaEstimator::Start::kFirstObservation);
  ema.Observe(1, 0, absl::ZeroDuration());
  ema.Observe(1, 0, absl::Seconds(-1));
  EXPECT_EQ(ema.factor(), 1.0);
}

}  // namespace
}  // namespace bastion
