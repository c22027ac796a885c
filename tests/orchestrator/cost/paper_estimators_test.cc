// Sequences of predictions and observations, worked out by hand from the formulas of the BASTION
// paper (section 2.4, appendix H.4).
//
// Symbols and the model: roofline.h, tiny_model.h. The roofline takes R(1, 0) = 1.02 s,
// R(3, 0) = 1.78 s and R(3, 7) = 2.284 s (roofline_test.cc, make_estimator_test.cc).
#include "orchestrator/cost/paper_estimators.h"

#include "gtest/gtest.h"
#include "tests/orchestrator/cost/tiny_model.h"

namespace bastion {
namespace {

using ::bastion::testing::TinyRoofline;
using Kind = PaperEstimator::Kind;

// On the line T = 2·R + 1: 2·1.02 + 1 = 3.04 and 2·1.78 + 1 = 4.56. So a = 2 and b = 1.
LatencyProfile TwoPoints() { return {{{1, 0, 3.04, 3.1}, {3, 0, 4.56, 4.7}}}; }

PaperEstimators Estimators() { return *PaperEstimators::Make(TinyRoofline(), TwoPoints()); }

double Seconds(const PaperEstimators& estimators, PaperEstimator which, int rows, int context) {
  return absl::ToDoubleSeconds(estimators.Get(which).Predict(rows, context));
}

TEST(PaperEstimatorsTest, StaticFollowsTheCalibratedLineWhateverIsObserved) {
  PaperEstimators estimators = Estimators();
  // a·R + b = 2·2.284 + 1
  EXPECT_NEAR(Seconds(estimators, {Kind::kStatic}, 3, 7), 5.568, 1e-9);
  estimators.Observe(3, 7, absl::Seconds(100));
  EXPECT_NEAR(Seconds(estimators, {Kind::kStatic}, 3, 7), 5.568, 1e-9);
}

TEST(PaperEstimatorsTest, EmaCorrectsTheBareRoofline) {
  PaperEstimators estimators = Estimators();
  const PaperEstimator ema = {Kind::kEma};
  EXPECT_NEAR(Seconds(estimators, ema, 3, 7), 2.284, 1e-9);  // k = 1: the roofline itself.
  estimators.Observe(1, 0, absl::Seconds(2.04));             // 2.04 / 1.02 = 2, the first: k = 2
  EXPECT_NEAR(Seconds(estimators, ema, 3, 7), 2 * 2.284, 1e-9);
  estimators.Observe(3, 0, absl::Seconds(7.12));  // 7.12 / 1.78 = 4: k = 0.9·2 + 0.1·4 = 2.2
  EXPECT_NEAR(Seconds(estimators, ema, 3, 7), 2.2 * 2.284, 1e-9);
  estimators.Observe(3, 7, absl::Seconds(2.284));  // Ratio 1: k = 0.9·2.2 + 0.1·1 = 2.08
  EXPECT_NEAR(Seconds(estimators, ema, 1, 0), 2.08 * 1.02, 1e-9);
}

TEST(PaperEstimatorsTest, EmaCalibCorrectsTheCalibratedLine) {
  PaperEstimators estimators = Estimators();
  const PaperEstimator ema = {Kind::kEmaCalib};
  EXPECT_NEAR(Seconds(estimators, ema, 3, 7), 5.568, 1e-9);  // k = 1: the calibrated line.
  estimators.Observe(1, 0, absl::Seconds(6.08));  // 6.08 / 3.04 = 2: k = 0.9·1 + 0.1·2 = 1.1
  EXPECT_NEAR(Seconds(estimators, ema, 3, 7), 1.1 * 5.568, 1e-9);
  estimators.Observe(3, 0, absl::Seconds(13.68));  // 13.68 / 4.56 = 3: k = 0.9·1.1 + 0.1·3 = 1.29
  EXPECT_NEAR(Seconds(estimators, ema, 3, 7), 1.29 * 5.568, 1e-9);
}

TEST(PaperEstimatorsTest, AnotherAlphaTakesLargerSteps) {
  PaperEstimators estimators = Estimators();
  const PaperEstimator half = {Kind::kEma, 50}, whole = {Kind::kEma, 100};
  (void)estimators.Get(half);
  (void)estimators.Get(whole);
  estimators.Observe(1, 0, absl::Seconds(2.04));                  // 2
  estimators.Observe(3, 0, absl::Seconds(7.12));                  // 4
  EXPECT_NEAR(Seconds(estimators, half, 1, 0), 3 * 1.02, 1e-9);   // 0.5·2 + 0.5·4
  EXPECT_NEAR(Seconds(estimators, whole, 1, 0), 4 * 1.02, 1e-9);  // 0·2 + 1·4
}

TEST(PaperEstimatorsTest, AnAlphaLearnsFromItsFirstUseOn) {
  PaperEstimators estimators = Estimators();
  estimators.Observe(1, 0, absl::Seconds(2.04));
  const PaperEstimator late = {Kind::kEma, 20};
  EXPECT_NEAR(Seconds(estimators, late, 1, 0), 1.02, 1e-9);
  estimators.Observe(1, 0, absl::Seconds(4.08));
  EXPECT_NEAR(Seconds(estimators, late, 1, 0), 4.08, 1e-9);
  EXPECT_NEAR(Seconds(estimators, {Kind::kEma}, 1, 0), 2.2 * 1.02, 1e-9);
}

TEST(PaperEstimatorsTest, StaticHasNoAlpha) {
  const PaperEstimators estimators = Estimators();
  EXPECT_EQ(&estimators.Get({Kind::kStatic, 1}), &estimators.Get({Kind::kStatic, 99}));
}

TEST(PaperEstimatorsTest, AnAlphaOutOfRangeFailsACheck) {
  const PaperEstimators estimators = Estimators();
  EXPECT_DEATH((void)estimators.Get({Kind::kEma, 0}), "alpha is 0 percent");
  EXPECT_DEATH((void)estimators.Get({Kind::kEmaCalib, 101}), "alpha is 101 percent");
}

TEST(PaperEstimatorsTest, NoPointsAreAnError) {
  EXPECT_EQ(PaperEstimators::Make(TinyRoofline(), {}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace bastion
