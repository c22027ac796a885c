#include "orchestrator/belief/acceptance_calibration.h"

#include <cmath>

#include "gtest/gtest.h"

namespace bastion {
namespace {

float Log(double value) { return static_cast<float>(std::log(value)); }

// Observes `count` candidates with the stated probability. The share `accepted` of them is right.
struct Cell {
  PathKind kind;
  int depth;
  double stated;
};
void Observe(AcceptanceCalibration& calibration, const Cell& cell, double accepted, int count) {
  double owed = 0;
  for (int i = 0; i < count; ++i) {
    owed += accepted;
    const bool right = owed > 1 - 1e-9;
    if (right) owed -= 1;
    calibration.Observe(cell.kind, cell.depth, Log(cell.stated), cell.stated, right);
    calibration.EndCycle();
  }
  calibration.Refresh();
}

double Calibrated(const AcceptanceCalibration& calibration, PathKind kind, int depth,
                  double stated) {
  return stated * std::exp(calibration.LogFactor(kind, depth, Log(stated)));
}

TEST(AcceptanceCalibrationTest, TrustsTheDrafterBeforeTheFirstObservation) {
  const AcceptanceCalibration calibration;
  for (const int depth : {1, 4, 100}) {
    for (const double stated : {1.0, 0.3, 1e-9}) {
      EXPECT_FLOAT_EQ(calibration.LogFactor(PathKind::kSpine, depth, Log(stated)), 0);
    }
  }
}

TEST(AcceptanceCalibrationTest, LearnsTheAcceptanceOfEachBinOfProbability) {
  AcceptanceCalibration calibration;
  for (int round = 0; round < 200; ++round) {
    Observe(calibration, {PathKind::kSpine, 1, 0.9}, 0.6, 10);
    Observe(calibration, {PathKind::kSpine, 1, 0.3}, 0.5, 10);
  }
  EXPECT_NEAR(Calibrated(calibration, PathKind::kSpine, 1, 0.9), 0.6, 0.06);
  EXPECT_NEAR(Calibrated(calibration, PathKind::kSpine, 1, 0.3), 0.5, 0.06);
}

TEST(AcceptanceCalibrationTest, TellsNearlyCertainCandidatesFromLikelyOnes) {
  AcceptanceCalibration calibration;
  for (int round = 0; round < 200; ++round) {
    Observe(calibration, {PathKind::kSpine, 1, 0.98}, 0.9, 10);
    Observe(calibration, {PathKind::kSpine, 1, 0.6}, 0.8, 10);
  }
  EXPECT_NEAR(Calibrated(calibration, PathKind::kSpine, 1, 0.98), 0.9, 0.03);
  EXPECT_NEAR(Calibrated(calibration, PathKind::kSpine, 1, 0.6), 0.8, 0.05);
}

TEST(AcceptanceCalibrationTest, ObservationsTakeEffectAtTheNextRefresh) {
  AcceptanceCalibration calibration;
  for (int i = 0; i < 50; ++i) calibration.Observe(PathKind::kSpine, 1, Log(0.5), 0.5, false);
  EXPECT_FLOAT_EQ(Calibrated(calibration, PathKind::kSpine, 1, 0.5), 0.5);
  calibration.Refresh();
  EXPECT_LT(Calibrated(calibration, PathKind::kSpine, 1, 0.5), 0.1);
}

TEST(AcceptanceCalibrationTest, KeepsKindsApart) {
  AcceptanceCalibration calibration;
  Observe(calibration, {PathKind::kOffSpine, 2, 0.5}, 0.1, 500);
  EXPECT_LT(Calibrated(calibration, PathKind::kOffSpine, 2, 0.5), 0.2);
  EXPECT_FLOAT_EQ(Calibrated(calibration, PathKind::kSpine, 2, 0.5), 0.5);
}

TEST(AcceptanceCalibrationTest, UnseenBinsAndDeeperNodesFollowTheirNeighbors) {
  AcceptanceCalibration calibration;
  Observe(calibration, {PathKind::kSpine, 1, 0.9}, 0.0, 300);
  EXPECT_LT(Calibrated(calibration, PathKind::kSpine, 1, 0.2), 0.02);
  EXPECT_LT(Calibrated(calibration, PathKind::kSpine, 7, 0.9), 0.05);
}

TEST(AcceptanceCalibrationTest, RecoversWhenTheDrafterImproves) {
  AcceptanceCalibration calibration;
  Observe(calibration, {PathKind::kSpine, 1, 0.8}, 0.0, 2000);
  Observe(calibration, {PathKind::kSpine, 1, 0.8}, 0.8, 2000);
  EXPECT_NEAR(Calibrated(calibration, PathKind::kSpine, 1, 0.8), 0.8, 0.08);
}

TEST(AcceptanceCalibrationTest, StaysFiniteOverManyCycles) {
  AcceptanceCalibration calibration;
  Observe(calibration, {PathKind::kSpine, 1, 0.5}, 0.25, 300'000);
  EXPECT_NEAR(Calibrated(calibration, PathKind::kSpine, 1, 0.5), 0.25, 0.05);
}

TEST(TrustTest, StartsNeutralAndMovesWithTheRequest) {
  Trust trust;
  EXPECT_EQ(trust.Apply(Log(0.4)), Log(0.4));
  for (int i = 0; i < 100; ++i) trust.Observe(0.8, false);
  EXPECT_LT(trust.odds(), 0.3);
  EXPECT_LT(std::exp(trust.Apply(Log(0.4))), 0.2);
  Trust good;
  for (int i = 0; i < 100; ++i) good.Observe(0.4, true);
  EXPECT_GT(good.odds(), 1.5);
  EXPECT_LE(good.Apply(0), 0);
}

TEST(TrustTest, AFewChoicesMoveItLittle) {
  Trust trust;
  for (int i = 0; i < 3; ++i) trust.Observe(0.6, false);
  EXPECT_GT(trust.odds(), 0.75);
}

}  // namespace
}  // namespace bastion
