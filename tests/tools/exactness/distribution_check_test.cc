// Runs the check on a correct toy target and on faulty ones.
#include "tools/exactness/distribution_check.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/tools/exactness/toy_target.h"
#include "tools/exactness/report.h"

namespace bastion {
namespace {

using ::bastion::testing::ToyDrafter;
using ::bastion::testing::ToyFault;
using ::bastion::testing::ToyTarget;

class DistributionCheckTest : public ::testing::Test {
 protected:
  absl::StatusOr<DistributionReport> Check(ToyTarget& target) {
    DistributionCheck check;
    check.verifier = &target;
    check.drafter = &drafter_;
    check.prompts = {{3, 8, 5}, {1, 4}};
    check.tree_nodes = 12;
    for (const float temperature : {0.7f, 1.0f, 1.5f}) {
      for (const float top_p : {1.0f, 0.9f}) {
        ChoiceParams& setting = check.settings.emplace_back();
        setting.temperature = temperature;
        setting.top_p = top_p;
      }
    }
    check.walks = 24000;
    return CheckDistribution(check);
  }

  // True if a test of the first `choices` choices failed (0: of whole walks).
  static bool Failed(const DistributionReport& report, int choices) {
    return std::any_of(report.tests.begin(), report.tests.end(),
                       [&](const auto& test) { return test.choices == choices && !test.passed; });
  }

  ToyDrafter drafter_;
};

TEST_F(DistributionCheckTest, ACorrectTargetPasses) {
  ToyTarget target;
  const auto report = Check(target);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->exact()) << DistributionTable(*report);
  EXPECT_EQ(report->walks, 24000);
  EXPECT_EQ(report->tests.size(), 18u);
  EXPECT_GT(report->choices, report->walks);
  EXPECT_GT(report->tree_depth, 1);
  EXPECT_EQ(target.live_sequences(), 0u);
}

TEST_F(DistributionCheckTest, DetectsAWalkAlongTheMostLikelyTokens) {
  ToyTarget target(ToyFault::kArgmaxWalk);
  const auto report = Check(target);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(Failed(*report, 1)) << DistributionTable(*report);
}

TEST_F(DistributionCheckTest, JointTestsDetectANoiseKeyWithoutThePosition) {
  ToyTarget target(ToyFault::kNoPositionInKey);
  const auto report = Check(target);
  ASSERT_TRUE(report.ok()) << report.status();
  // Each single choice has the correct distribution.
  EXPECT_FALSE(Failed(*report, 1)) << DistributionTable(*report);
  EXPECT_TRUE(Failed(*report, 2)) << DistributionTable(*report);
  EXPECT_TRUE(Failed(*report, 0)) << DistributionTable(*report);
}

TEST_F(DistributionCheckTest, ADrafterWithoutCandidatesIsAnError) {
  drafter_.silent = true;
  ToyTarget target;
  EXPECT_TRUE(absl::IsFailedPrecondition(Check(target).status()));
  EXPECT_EQ(target.live_sequences(), 0u);
}

}  // namespace
}  // namespace bastion
