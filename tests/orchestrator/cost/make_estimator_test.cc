#include "orchestrator/cost/make_estimator.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/orchestrator/cost/tiny_model.h"

namespace bastion {
namespace {

using ::bastion::testing::TinyRoofline;
using ::testing::HasSubstr;

LatencyProfile MeasuredTable() {
  // Measured time = 2·R(rows, context) + 1, where R is the time of TinyRoofline() in seconds.
  // R(1, 0) = 1.02. R(3, 0) = 1.78, from 2·[80+42+2(72+60+36+180+36)] = 1780 bytes at 1000 bytes/s.
  return {{{1, 0, 3.04, 3.1}, {3, 0, 4.56, 4.7}}};
}

TEST(MakeEstimatorTest, CreatesAnEstimatorForEachName) {
  for (const char* name : {"roofline", "static", "ema", "ema+calib", "staircase"}) {
    const auto estimator = MakeEstimator(name, TinyRoofline(), MeasuredTable());
    ASSERT_TRUE(estimator.ok()) << name;
    EXPECT_EQ((*estimator)->name(), name);
  }
}

TEST(MakeEstimatorTest, AlphaIsTheStepOfTheAverages) {
  for (const char* name : {"ema", "ema+calib"}) {
    const auto estimator = MakeEstimator(name, TinyRoofline(), MeasuredTable(), /*alpha=*/0.5);
    const absl::Duration first = (*estimator)->Predict(1, 0);
    (*estimator)->Observe(1, 0, first);      // k = 1
    (*estimator)->Observe(1, 0, 3 * first);  // k = 0.5·1 + 0.5·3
    EXPECT_NEAR(absl::FDivDuration((*estimator)->Predict(1, 0), first), 2, 1e-9) << name;
  }
}

TEST(MakeEstimatorTest, CalibratedEstimatorsPredictTheMeasuredPoints) {
  for (const char* name : {"static", "ema+calib", "staircase"}) {
    const auto estimator = MakeEstimator(name, TinyRoofline(), MeasuredTable());
    EXPECT_NEAR(absl::ToDoubleSeconds((*estimator)->Predict(1, 0)), 3.04, 1e-9) << name;
    EXPECT_NEAR(absl::ToDoubleSeconds((*estimator)->Predict(3, 0)), 4.56, 1e-9) << name;
  }
}

TEST(MakeEstimatorTest, TheRooflineAndEmaNeedNoTable) {
  for (const char* name : {"roofline", "ema"}) {
    const auto estimator = MakeEstimator(name, TinyRoofline(), {});
    ASSERT_TRUE(estimator.ok());
    EXPECT_EQ((*estimator)->Predict(3, 7), absl::Seconds(2.284));
  }
}

TEST(MakeEstimatorTest, CalibratedEstimatorsRefuseAnEmptyTable) {
  for (const char* name : {"static", "ema+calib", "staircase"}) {
    EXPECT_EQ(MakeEstimator(name, TinyRoofline(), {}).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST(MakeEstimatorTest, TheErrorForAnUnknownNameListsTheKnownNames) {
  const auto estimator = MakeEstimator("oracle", TinyRoofline(), MeasuredTable());
  EXPECT_EQ(estimator.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(estimator.status().message(),
              HasSubstr("\"oracle\"; use roofline, static, ema, ema+calib or staircase"));
}

}  // namespace
}  // namespace bastion
