#include "orchestrator/cost/staircase.h"

#include <cmath>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Milliseconds:      rows 1   4   8
//   context 100          10  12  20
//   context 300          14  20  40
std::vector<ProfilePoint> Points() {
  return {{1, 100, 0.010, 0}, {4, 100, 0.012, 0}, {8, 100, 0.020, 0},
          {1, 300, 0.014, 0}, {4, 300, 0.020, 0}, {8, 300, 0.040, 0}};
}

Staircase SampleStaircase() { return *Staircase::Make(Points()); }

double Milliseconds(const Staircase& staircase, int rows, int context) {
  return absl::ToDoubleMilliseconds(staircase.Predict(rows, context));
}

TEST(StaircaseTest, PredictsTheMeasuredPoints) {
  const Staircase staircase = SampleStaircase();
  for (const ProfilePoint& point : Points()) {
    EXPECT_NEAR(Milliseconds(staircase, point.rows, point.context), 1000 * point.seconds, 1e-6);
  }
  EXPECT_THAT(staircase.row_counts(), ElementsAre(1, 4, 8));
}

TEST(StaircaseTest, InterpolatesBetweenRowCountsAndContexts) {
  const Staircase staircase = SampleStaircase();
  EXPECT_NEAR(Milliseconds(staircase, 5, 100), 14, 1e-6);  // 12 + 8/4
  EXPECT_NEAR(Milliseconds(staircase, 4, 150), 14, 1e-6);  // 12 + 8/4
  EXPECT_NEAR(Milliseconds(staircase, 6, 200), 23, 1e-6);  // (12 + 20)/2 = 16, (20 + 40)/2 = 30
}

TEST(StaircaseTest, ExtrapolatesBeyondTheTable) {
  const Staircase staircase = SampleStaircase();
  EXPECT_NEAR(Milliseconds(staircase, 4, 0), 12, 1e-6);     // The value at the first context.
  EXPECT_NEAR(Milliseconds(staircase, 10, 100), 24, 1e-6);  // 2 ms per row, as from 4 to 8.
  EXPECT_NEAR(Milliseconds(staircase, 4, 500), 28, 1e-6);   // 8 ms per 200 tokens.
}

TEST(StaircaseTest, OneMeasuredPointGivesAConstant) {
  const Staircase staircase = *Staircase::Make({{4, 100, 0.012, 0}});
  EXPECT_NEAR(Milliseconds(staircase, 1, 0), 12, 1e-6);
  EXPECT_NEAR(Milliseconds(staircase, 128, 4096), 12, 1e-6);
}

TEST(StaircaseTest, UsesTheMeanOfAPointMeasuredTwice) {
  const Staircase staircase = *Staircase::Make({{4, 100, 0.012, 0}, {4, 100, 0.016, 0}});
  EXPECT_NEAR(Milliseconds(staircase, 4, 100), 14, 1e-6);
}

TEST(StaircaseTest, NoiseNeverMakesMoreRowsCheaper) {
  // 10, 14, 12, 20 ms: the second and third are pooled to 13.
  const Staircase staircase =
      *Staircase::Make({{1, 0, 0.010, 0}, {2, 0, 0.014, 0}, {3, 0, 0.012, 0}, {4, 0, 0.020, 0}});
  EXPECT_NEAR(Milliseconds(staircase, 2, 0), 13, 1e-6);
  EXPECT_NEAR(Milliseconds(staircase, 3, 0), 13, 1e-6);
  EXPECT_NEAR(Milliseconds(staircase, 4, 0), 20, 1e-6);
}

TEST(StaircaseTest, TimesThatDecreaseWithTheContextAreNotExtrapolated) {
  const Staircase staircase = *Staircase::Make({{1, 100, 0.012, 0}, {1, 200, 0.011, 0}});
  EXPECT_NEAR(Milliseconds(staircase, 1, 10000), 12, 1e-6);
}

TEST(StaircaseTest, NeverDecreasesWithTheRowsAfterAnyObservations) {
  Staircase staircase = SampleStaircase();
  std::mt19937 random(1);
  for (int i = 0; i < 500; ++i) {
    const int rows = 1 + static_cast<int>(random() % 10);
    const int context = static_cast<int>(random() % 600);
    staircase.Observe(rows, context, absl::Milliseconds(1 + random() % 60));
    for (int r = 1; r < 12; ++r) {
      EXPECT_LE(Milliseconds(staircase, r, context),
                Milliseconds(staircase, r + 1, context) + 1e-9);
    }
  }
}

TEST(StaircaseTest, CurveEqualsThePredictionForEachRowCount) {
  Staircase grid = SampleStaircase();
  Staircase point = *Staircase::Make({{4, 100, 0.012, 0}});
  std::mt19937 random(2);
  for (int i = 0; i < 100; ++i) {
    for (Staircase* staircase : {&grid, &point}) {
      staircase->Observe(1 + random() % 10, random() % 600, absl::Milliseconds(1 + random() % 60));
      const int context = static_cast<int>(random() % 600);
      std::vector<double> seconds(12);
      staircase->Curve(context, absl::MakeSpan(seconds));
      for (int rows = 1; rows <= 12; ++rows) {
        EXPECT_NEAR(1000 * seconds[rows - 1], Milliseconds(*staircase, rows, context), 1e-6);
      }
    }
  }
}

TEST(StaircaseTest, AnObservationMovesItsRowFactorAndTheCommonFactor) {
  Staircase staircase = SampleStaircase();
  // Twice as slow at the measured row count 4: its own factor and the common factor both grow by
  // 2^0.1. The other row counts see only the common factor.
  staircase.Observe(4, 100, absl::Milliseconds(24));
  EXPECT_NEAR(Milliseconds(staircase, 4, 100), 12 * std::pow(2.0, 0.2), 1e-6);
  EXPECT_NEAR(Milliseconds(staircase, 8, 100), 20 * std::pow(2.0, 0.1), 1e-6);
  EXPECT_NEAR(Milliseconds(staircase, 1, 300), 14 * std::pow(2.0, 0.1), 1e-6);
}

TEST(StaircaseTest, FollowsAMachineThatBecomesSlower) {
  Staircase staircase = SampleStaircase();
  for (int i = 0; i < 60; ++i) {
    for (const int rows : {1, 4, 8}) {
      staircase.Observe(rows, 100, 1.5 * SampleStaircase().Predict(rows, 100));
    }
  }
  for (const int rows : {1, 4, 6, 8}) {
    EXPECT_NEAR(Milliseconds(staircase, rows, 300),
                1.5 * Milliseconds(SampleStaircase(), rows, 300), 0.1);
  }
}

TEST(StaircaseTest, AttributesHalfOfASlowdownAtOneRowCountToAllRowCounts) {
  Staircase staircase = SampleStaircase();
  for (int i = 0; i < 200; ++i) staircase.Observe(4, 100, absl::Milliseconds(18));
  EXPECT_NEAR(Milliseconds(staircase, 4, 100), 18, 0.01);
  EXPECT_NEAR(Milliseconds(staircase, 1, 100), 10 * std::sqrt(1.5), 0.01);
}

TEST(StaircaseTest, CorrectsAWrongPointWithoutChangingTheOthers) {
  // The true time at 8 rows is 30 ms instead of 20. The other points are right.
  Staircase staircase = SampleStaircase();
  for (int i = 0; i < 200; ++i) {
    staircase.Observe(1, 100, absl::Milliseconds(10));
    staircase.Observe(4, 100, absl::Milliseconds(12));
    staircase.Observe(8, 100, absl::Milliseconds(30));
  }
  EXPECT_NEAR(Milliseconds(staircase, 1, 100), 10, 0.5);
  EXPECT_NEAR(Milliseconds(staircase, 4, 100), 12, 0.5);
  EXPECT_NEAR(Milliseconds(staircase, 8, 100), 30, 1.0);
}

TEST(StaircaseTest, LearnsFromObservationsBetweenRowCounts) {
  Staircase staircase = SampleStaircase();
  for (int i = 0; i < 300; ++i) staircase.Observe(5, 100, absl::Milliseconds(21));
  EXPECT_NEAR(Milliseconds(staircase, 5, 100), 21, 0.01);
}

TEST(StaircaseTest, ThePredictionFallsToWhatIsObservedBelowThePointsForFewerRows) {
  // 8 rows take less than the table says for 4 rows. 4 rows are not observed.
  Staircase staircase = SampleStaircase();
  for (int i = 0; i < 100; ++i) staircase.Observe(8, 100, absl::Milliseconds(6));
  EXPECT_NEAR(Milliseconds(staircase, 8, 100), 6, 0.1);
  EXPECT_LE(Milliseconds(staircase, 4, 100), 6.1);
}

TEST(StaircaseTest, AStalledForwardChangesLittle) {
  Staircase staircase = SampleStaircase();
  staircase.Observe(4, 100, absl::Seconds(60));
  EXPECT_LT(Milliseconds(staircase, 4, 100), 12 * 1.15);
}

TEST(StaircaseTest, IgnoresTimesThatAreNotPositive) {
  Staircase staircase = SampleStaircase();
  staircase.Observe(4, 100, absl::ZeroDuration());
  EXPECT_NEAR(Milliseconds(staircase, 4, 100), 12, 1e-6);
}

TEST(StaircaseTest, RefusesAnEmptyTable) {
  EXPECT_EQ(Staircase::Make({}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(StaircaseTest, RefusesAGridWithAHole) {
  std::vector<ProfilePoint> points = Points();
  points.pop_back();
  EXPECT_THAT(Staircase::Make(points).status().message(),
              HasSubstr("do not form a full grid of 3 row counts"));
}

TEST(StaircaseTest, RefusesTimesThatAreNotPositive) {
  EXPECT_THAT(Staircase::Make({{4, 100, 0.0, 0}}).status().message(),
              HasSubstr("invalid profile point: 4 rows, context 100, 0 s"));
  EXPECT_THAT(Staircase::Make({{0, 100, 1.0, 0}}).status().message(),
              HasSubstr("invalid profile point: 0 rows, context 100, 1 s"));
  EXPECT_THAT(Staircase::Make({{4, -1, 1.0, 0}}).status().message(),
              HasSubstr("invalid profile point: 4 rows, context -1, 1 s"));
}

}  // namespace
}  // namespace bastion
