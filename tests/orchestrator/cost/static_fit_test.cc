#include "orchestrator/cost/static_fit.h"

#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/orchestrator/cost/tiny_model.h"

namespace bastion {
namespace {

using ::bastion::testing::TinyRoofline;

// In this file, R(rows, context) is the time of TinyRoofline() in seconds.
//
// Points with the measured time a·R + b, with noise of relative size `noise`.
std::vector<ProfilePoint> PointsOn(double a, double b, double noise = 0) {
  std::mt19937 random(1);
  std::normal_distribution<> gauss(1.0, noise);
  const Roofline roofline = TinyRoofline();
  std::vector<ProfilePoint> points;
  for (const int context : {0, 16, 64}) {
    for (const int rows : {1, 2, 4, 8, 16, 32, 64}) {
      const double seconds = a * roofline.Seconds(rows, context) + b;
      points.push_back({rows, context, noise > 0 ? seconds * gauss(random) : seconds, 0});
    }
  }
  return points;
}

TEST(StaticFitTest, TheDefaultLineIsTheRooflineItself) {
  // 2284 bytes at 1000 bytes/s (roofline_test).
  EXPECT_EQ(StaticFit(TinyRoofline()).Predict(3, 7), absl::Seconds(2.284));
}

TEST(StaticFitTest, CurveEqualsThePredictionForEachRowCount) {
  const StaticFit fit(TinyRoofline());
  std::vector<double> seconds(3);
  fit.Curve(7, absl::MakeSpan(seconds));
  for (int rows = 1; rows <= 3; ++rows) {
    EXPECT_DOUBLE_EQ(seconds[rows - 1], absl::ToDoubleSeconds(fit.Predict(rows, 7)));
  }
}

TEST(StaticFitTest, RecoversTheLineOfExactPoints) {
  const absl::StatusOr<StaticLine> line = StaticFit::Fit(TinyRoofline(), PointsOn(1.7, 0.3));
  ASSERT_TRUE(line.ok());
  EXPECT_NEAR(line->slope, 1.7, 1e-9);
  EXPECT_NEAR(line->intercept, 0.3, 1e-9);
  EXPECT_NEAR(absl::ToDoubleSeconds(StaticFit(TinyRoofline(), *line).Predict(3, 7)),
              1.7 * 2.284 + 0.3, 1e-9);
}

TEST(StaticFitTest, RecoversTheSlopeOfNoisyPoints) {
  const absl::StatusOr<StaticLine> line = StaticFit::Fit(TinyRoofline(), PointsOn(2.0, 5.0, 0.03));
  ASSERT_TRUE(line.ok());
  EXPECT_NEAR(line->slope, 2.0, 0.1);
}

// R(1, 0) = 1.02 with a measured time of 2 s, and R(3, 7) = 2.284 with 5 s:
// a = 3 / 1.264, b = 2 − 1.02·a.
TEST(StaticFitTest, FitsTheLineThroughTwoPoints) {
  const absl::StatusOr<StaticLine> line =
      StaticFit::Fit(TinyRoofline(), {{1, 0, 2.0, 0}, {3, 7, 5.0, 0}});
  ASSERT_TRUE(line.ok());
  EXPECT_NEAR(line->slope, 3 / 1.264, 1e-12);
  EXPECT_NEAR(line->intercept, 2 - 1.02 * 3 / 1.264, 1e-12);
}

TEST(StaticFitTest, InterpolatedPointsDoNotCount) {
  const std::vector<ProfilePoint> measured = {{1, 0, 2.0, 0}, {3, 7, 5.0, 0}};
  std::vector<ProfilePoint> points = measured;
  points.push_back({3, 0, 0.1, 0, /*interpolated=*/true});
  const StaticLine line = *StaticFit::Fit(TinyRoofline(), points);
  EXPECT_EQ(line.slope, StaticFit::Fit(TinyRoofline(), measured)->slope);
  EXPECT_EQ(line.floor_seconds, 2);
  EXPECT_FALSE(StaticFit::Fit(TinyRoofline(), {points.back()}).ok());
}

TEST(StaticFitTest, DecreasingTimesPredictTheirMean) {
  const absl::StatusOr<StaticLine> line =
      StaticFit::Fit(TinyRoofline(), {{1, 0, 5.0, 0}, {3, 7, 2.0, 0}});
  ASSERT_TRUE(line.ok());
  EXPECT_EQ(line->slope, 0);
  EXPECT_EQ(line->intercept, 3.5);
}

TEST(StaticFitTest, OnePointGivesAConstant) {
  const absl::StatusOr<StaticLine> line = StaticFit::Fit(TinyRoofline(), {{3, 7, 4.0, 0}});
  ASSERT_TRUE(line.ok());
  EXPECT_EQ(StaticFit(TinyRoofline(), *line).Predict(100, 100), absl::Seconds(4));
}

TEST(StaticFitTest, NoPredictionIsBelowTheFastestPoint) {
  // A steep line with a negative intercept: R(1, 0) = 1.02 would give 2·1.02 − 1.9 = 0.14 s.
  const StaticFit fit(TinyRoofline(), {.slope = 2, .intercept = -1.9, .floor_seconds = 1});
  EXPECT_EQ(fit.Predict(1, 0), absl::Seconds(1));
}

TEST(StaticFitTest, NoPointsAreAnError) {
  EXPECT_EQ(StaticFit::Fit(TinyRoofline(), {}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(StaticFitTest, ObservationsChangeNothing) {
  StaticFit fit(TinyRoofline());
  fit.Observe(3, 7, absl::Seconds(100));
  EXPECT_EQ(fit.Predict(3, 7), absl::Seconds(2.284));
}

}  // namespace
}  // namespace bastion
