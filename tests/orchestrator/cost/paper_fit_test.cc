#include "orchestrator/cost/paper_fit.h"

#include <cmath>
#include <string>

#include "gtest/gtest.h"
#include "orchestrator/cost/make_estimator.h"
#include "orchestrator/profile/profile_file.h"
#include "tests/orchestrator/cost/tiny_model.h"

namespace bastion {
namespace {

using ::bastion::testing::TinyRoofline;

// The roofline takes R(1, 0) = 1.02 s, R(3, 0) = 1.78 s and R(3, 7) = 2.284 s (roofline_test.cc,
// make_estimator_test.cc). The measured times are 3.04, 4.56 and 5.568 s, on T = 2·R + 1.
//   bare:   errors 2.02, 2.78, 3.284: √((4.0804 + 7.7284 + 10.784656) / 3) = 2.744294
//   scaled: k = Σ R·T / Σ R² = (3.1008 + 8.1168 + 12.717312) / (1.0404 + 3.1684 + 5.216656)
//             = 23.934912 / 9.425456 = 2.539391
//   static: errors 0
TEST(PaperFitTest, ErrorsMatchAHandComputation) {
  const LatencyProfile table = {
      {{1, 0, 3.04, 0}, {3, 0, 4.56, 0}, {3, 7, 5.568, 0}, {9, 9, 1e3, 0, /*interpolated=*/true}}};
  const auto fit = FitPaperModels(TinyRoofline(), table);
  ASSERT_TRUE(fit.ok()) << fit.status();
  EXPECT_NEAR(fit->line.slope, 2, 1e-9);
  EXPECT_NEAR(fit->line.intercept, 1, 1e-9);
  EXPECT_NEAR(fit->roofline_rmse, 2.744294, 1e-6);
  EXPECT_NEAR(fit->scale, 2.539391, 1e-6);
  EXPECT_LT(fit->scaled_rmse, fit->roofline_rmse);
  EXPECT_NEAR(fit->static_rmse, 0, 1e-9);
  EXPECT_NEAR(fit->cut(), 1, 1e-9);
}

TEST(PaperFitTest, NoMeasuredPointsAreAnError) {
  EXPECT_FALSE(FitPaperModels(TinyRoofline(), {}).ok());
  EXPECT_FALSE(FitPaperModels(TinyRoofline(), {{{1, 0, 1, 1, /*interpolated=*/true}}}).ok());
}

// Profiles of the demo pair with both types of weights, recorded with `bastion-bench
// --latency_profile` on a machine with two cores. The bare roofline is closer there than in the
// paper, because its peaks are measured with the engine's own kernels.
TEST(PaperFitTest, StaticIsCloserToRecordedTimesThanTheBareRoofline) {
  for (const char* name : {"demo_bf16", "demo_int8"}) {
    const auto recorded = ReadProfileFile(std::string(BASTION_SOURCE_DIR) +
                                          "/tests/orchestrator/cost/recorded/" + name + ".json");
    ASSERT_TRUE(recorded.ok()) << recorded.status();
    const auto roofline = Roofline::Make(recorded->target.dims, recorded->target.peaks);
    ASSERT_TRUE(roofline.ok()) << roofline.status();
    const auto fit = FitPaperModels(*roofline, recorded->profile);
    ASSERT_TRUE(fit.ok()) << fit.status();
    EXPECT_LT(fit->static_rmse, fit->scaled_rmse) << name;
    EXPECT_LE(fit->scaled_rmse, fit->roofline_rmse) << name;
    EXPECT_GT(fit->cut(), 0.5) << name;
  }
}

}  // namespace
}  // namespace bastion
