// Runs the check on a correct toy target and on faulty ones. The arms (tools/bench/arm.h) run in
// this process.
#include "tools/exactness/text_check.h"

#include <cmath>

#include "common/base/random.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/tools/exactness/toy_target.h"
#include "tools/exactness/report.h"

namespace bastion {
namespace {

using ::bastion::testing::ToyDrafter;
using ::bastion::testing::ToyFault;
using ::bastion::testing::ToyTarget;
using ::testing::HasSubstr;

LatencyProfile Table() {
  LatencyProfile table;
  for (const int rows : {1, 4, 16, 64}) {
    const double seconds = 0.010 + 0.0001 * rows;
    table.points.push_back({rows, 16, seconds, seconds + 0.001});
  }
  return table;
}

TextSetting Setting(float temperature, bool penalties) {
  TextSetting setting;
  setting.name = penalties ? "penalties" : "plain";
  setting.sampling.temperature = temperature;
  setting.sampling.seed = 11;
  if (penalties) {
    setting.sampling.repetition_penalty = 1.3f;
    setting.sampling.presence_penalty = 0.5f;
    setting.sampling.frequency_penalty = 0.2f;
  }
  return setting;
}

class TextCheckTest : public ::testing::Test {
 protected:
  absl::StatusOr<TextReport> Check(ToyTarget& target, const std::vector<TextSetting>& settings) {
    std::vector<std::unique_ptr<Arm>> arms;
    TextCheck check;
    for (const char* policy :
         {"ar", "chain", "fixed:3", "fixed:16", "adaptive", "fixed:16+coupled"}) {
      auto arm = MakeLocalArm(policy, {&target, &drafter_}, Table(), {});
      if (!arm.ok()) return arm.status();
      arms.push_back(*std::move(arm));
      check.policies.push_back({policy, arms.back().get()});
    }
    check.settings = settings;
    check.prompts = {{"a", {1, 2, 3}}, {"b", {7, 7, 4, 0}}, {"c", {9}}, {"d", {5, 11}}};
    check.batch_sizes = {1, 3};
    check.max_new_tokens = 40;
    check.rounding = rounding_;
    const auto log_probs = MakeLocalLogProbs(&target, uint64_t{1} << 62);
    check.log_probs = log_probs.get();
    return CheckTexts(check);
  }

  ToyDrafter drafter_;
  double rounding_ = 0;
};

const std::vector<TextSetting>& AllSettings() {
  static const std::vector<TextSetting> settings = {Setting(0, false), Setting(0, true),
                                                    Setting(1, false), Setting(1, true)};
  return settings;
}

TEST_F(TextCheckTest, ACorrectTargetPasses) {
  ToyTarget target;
  const auto report = Check(target, AllSettings());
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->exact()) << TextTable(*report);
  EXPECT_TRUE(report->speculated());
  EXPECT_EQ(report->policies.size(), 12u);
  // Two prompts at batch size 1, three prompts at batch size 3, four settings each.
  EXPECT_EQ(report->policies.front().texts, 2 * 4);
  EXPECT_EQ(report->policies.back().texts, 3 * 4);
  EXPECT_EQ(report->policies.back().tokens, 3 * 4 * 40);
  EXPECT_EQ(target.live_sequences(), 0u);
  EXPECT_THAT(Verdict(*report, std::nullopt), HasSubstr("EXACT: 0 of 120 texts differ"));
}

TEST_F(TextCheckTest, DetectsAWalkAlongTheMostLikelyTokens) {
  ToyTarget target(ToyFault::kArgmaxWalk);
  const auto report = Check(target, {Setting(1, false)});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_FALSE(report->exact());
  EXPECT_THAT(Verdict(*report, std::nullopt), ::testing::StartsWith("NOT EXACT: "));
}

TEST_F(TextCheckTest, DetectsAPenaltyThatCountsOtherBranches) {
  ToyTarget target(ToyFault::kLeakyPenalty);
  const auto plain = Check(target, {Setting(0, false), Setting(1, false)});
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_TRUE(plain->exact());
  for (const float temperature : {0.0f, 1.0f}) {
    const auto report = Check(target, {Setting(temperature, true)});
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_FALSE(report->exact()) << temperature;
  }
}

// Plain decoding has the same fault, so only the distribution check detects it.
TEST_F(TextCheckTest, ANoiseKeyWithoutThePositionChangesNoText) {
  ToyTarget target(ToyFault::kNoPositionInKey);
  const auto report = Check(target, AllSettings());
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->exact());
}

TEST_F(TextCheckTest, ADifferenceReportsPositionTokensAndGap) {
  ToyTarget target(ToyFault::kArgmaxWalk);
  const auto report = Check(target, {Setting(1, false)});
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_FALSE(report->differences.empty());
  const TextDifference& first = report->differences.front();
  EXPECT_EQ(first.prompt, "a");
  EXPECT_EQ(first.policy, "chain");
  EXPECT_EQ(first.batch_size, 1);
  EXPECT_NE(first.expected, first.actual);
  ASSERT_TRUE(first.gap.has_value());
  EXPECT_GT(*first.gap, 0);
  EXPECT_FALSE(first.raw_gap);
  EXPECT_THAT(TextTable(*report), HasSubstr("prompt a, chain, plain, batch 1: output token "));
}

TEST_F(TextCheckTest, AGapBelowTheToleranceIsRounding) {
  ToyTarget target(ToyFault::kArgmaxWalk);
  rounding_ = 1e9;
  const auto report = Check(target, {Setting(1, false)});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->exact());
  EXPECT_FALSE(report->differences.empty());
  EXPECT_THAT(Verdict(*report, std::nullopt), HasSubstr("more within rounding"));
}

TEST(ChoiceGapTest, ComparesTheValuesOfTheKeyedChoice) {
  ChoiceParams choice;
  EXPECT_DOUBLE_EQ(ChoiceGap({-1.0, -3.5}, {4, 2}, 9, choice), 2.5);
  choice.temperature = 0.5f;
  choice.seed = 3;
  const double expected =
      std::abs((-1.0 / 0.5 + KeyedGumbel(3, 9, 4)) - (-3.5 / 0.5 + KeyedGumbel(3, 9, 2)));
  EXPECT_NEAR(ChoiceGap({-1.0, -3.5}, {4, 2}, 9, choice), expected, 1e-6);
}

}  // namespace
}  // namespace bastion
