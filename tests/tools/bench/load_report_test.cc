#include "tools/bench/load_report.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kNoTarget = std::numeric_limits<double>::infinity();

// One request: its first token after a second, then `tokens` tokens in another second.
LoadRun OneRequest(int tokens) {
  PromptMeasurement request;
  request.id = "p";
  request.output.resize(1 + tokens);
  request.seconds = 1;
  request.ended = 2;
  request.deltas = {{1, 1}, {2, tokens}};
  return {{request}};
}

std::vector<LevelResults> ExampleLevels() {
  return {{{.concurrency = 1},
           {{"ar", {OneRequest(2), OneRequest(2)}}, {"default", {OneRequest(3), OneRequest(5)}}}},
          {{.rate = 2.5}, {{"ar", {OneRequest(2)}}}},
          {{.arrivals = "f.jsonl"}, {{"ar", {OneRequest(2)}}}}};
}

TEST(LoadReportTest, JsonHasTheFiguresOfEachLevelAndArm) {
  const nlohmann::json levels = LevelsJson(ExampleLevels(), {kNoTarget, kNoTarget});
  ASSERT_EQ(levels.size(), 3u);
  EXPECT_EQ(levels[0]["concurrency"], 1);
  EXPECT_EQ(levels[1]["rate"], 2.5);
  EXPECT_EQ(levels[2]["arrivals"], "f.jsonl");
  const nlohmann::json& arm = levels[0]["arms"][1];
  EXPECT_EQ(arm["policy"], "default");
  EXPECT_EQ(arm["requests"], 2);
  EXPECT_EQ(arm["system_tokens_per_second"], 4.0);
  EXPECT_EQ(arm["goodput_tokens_per_second"], 4.0);
  EXPECT_EQ(arm["gap_seconds"], nlohmann::json({{"p50", 1.0}, {"p90", 1.0}, {"p99", 1.0}}));
  EXPECT_EQ(arm["stream_tokens_per_second"]["p50"], 4.0);
  EXPECT_TRUE(arm["ttft_seconds"].is_null()) << "the only first token is warm-up";
  EXPECT_EQ(arm["ratio_to_ar"], nlohmann::json({{"median", 1.5}, {"low", 1.5}, {"high", 2.5}}));
  ASSERT_EQ(arm["rounds"].size(), 2u);
  EXPECT_EQ(arm["rounds"][1]["system_tokens_per_second"], 5.0);
  EXPECT_FALSE(arm.contains("reliability"));
}

TEST(LoadReportTest, TablesShowRatiosWithTheirRangeAndMissingValues) {
  const std::string tables = LevelTables(ExampleLevels(), {kNoTarget, kNoTarget});
  EXPECT_THAT(tables, HasSubstr("### concurrency 1\n"));
  EXPECT_THAT(tables, HasSubstr("### rate 2.5/s\n"));
  EXPECT_THAT(tables, HasSubstr("| default | 4.0 | 1.50× (1.50–2.50) | 4.0 | – | – | 1000.0 |"));
}

TEST(LoadReportTest, AWindowWithFewTokensAndRejectionsAreMentioned) {
  std::vector<LevelResults> levels = {{{.concurrency = 2}, {{"ar", {OneRequest(2)}}}},
                                      {{.rate = 1}, {{"ar", {OneRequest(2)}}}}};
  levels[1].arms[0].rounds[0].rejected = 3;
  EXPECT_THAT(LevelTables({levels[0]}, {kNoTarget, kNoTarget}),
              HasSubstr("Only 0 % of the tokens"));
  EXPECT_THAT(LevelTables({levels[1]}, {kNoTarget, kNoTarget}), HasSubstr("refused 3 requests"));
  EXPECT_THAT(LevelTables({ExampleLevels()[0]}, {kNoTarget, kNoTarget}), Not(HasSubstr("Only")));
}

TEST(LoadReportTest, ReliabilityIsAddedUpOverRounds) {
  std::vector<LevelResults> levels = {
      {{.concurrency = 1}, {{"adaptive", {OneRequest(2), OneRequest(2)}}}}};
  for (LoadRun& run : levels[0].arms[0].rounds) {
    run.reliability.before.Observe(0.25, true);
    run.reliability.before.Observe(0.25, false);
    run.reliability.after.Observe(0.75, true);
  }
  const nlohmann::json reliability =
      LevelsJson(levels, {kNoTarget, kNoTarget})[0]["arms"][0]["reliability"];
  EXPECT_EQ(reliability["before"]["expected_calibration_error"], 0.25);
  EXPECT_EQ(reliability["before"]["bins"][2],
            nlohmann::json({{"count", 4}, {"mean_stated", 0.25}, {"accepted_share", 0.5}}));
  EXPECT_EQ(reliability["after"]["bins"][7]["count"], 2);
  const std::string tables = LevelTables(levels, {kNoTarget, kNoTarget});
  EXPECT_THAT(tables, HasSubstr("| adaptive, before | 0.2500 | – | – | 0.25 → 0.50 (4) |"));
  EXPECT_THAT(tables, HasSubstr("| adaptive, after | 0.2500 |"));
}

}  // namespace
}  // namespace bastion
