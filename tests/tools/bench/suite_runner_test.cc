// Runs small suites on the demo pair.
#include "tools/bench/suite_runner.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion {
namespace {

using ::testing::HasSubstr;

Suite Small() {
  Suite suite;
  suite.name = "small";
  suite.models = {"deploy/demo_model/target", "deploy/demo_model/drafter",
                  "deploy/demo_model/prompts.jsonl"};
  suite.policies = {"ar", "chain"};
  suite.grid.temperatures = {0, 1};
  suite.grid.prompt_tokens = {24};
  suite.load = {.max_new_tokens = 6, .warmup = 1, .prompts_per_dataset = 2, .max_rows = 32};
  suite.tables = {"datasets"};
  return suite;
}

SuiteOptions Options() {
  SuiteOptions options;
  options.local.device.threads = 2;
  options.source_folder = BASTION_SOURCE_DIR;
  return options;
}

TEST(SuiteRunnerTest, EveryCellOfTheGridHasFigures) {
  Suite suite = Small();
  suite.grid.concurrencies = {1, 2};
  const auto results = RunSuite(suite, Options());
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_TRUE(results->texts.ok()) << results->texts;
  ASSERT_EQ(results->runs.size(), 2u);
  const SuitePanel& panel = results->report.panels.at(0);
  EXPECT_EQ(panel.mode, "in process");
  ASSERT_EQ(panel.figures.size(), 8u) << "two temperatures, concurrencies and policies";
  for (const ArmFigures& row : panel.figures) {
    EXPECT_EQ(row.cell.prompt_tokens, 24);
    EXPECT_EQ(row.requests, row.cell.concurrency == 1 ? 2 : 4);
    EXPECT_GT(row.times.ttft, 0);
    EXPECT_GT(row.stream_tokens_per_second, 0);
    EXPECT_GT(row.peak_memory, int64_t{30} << 20) << "the target's weights alone are larger";
    if (row.policy == "ar") continue;
    EXPECT_GT(row.tau, 1);
    ASSERT_FALSE(row.depths.empty());
    EXPECT_GE(row.depths[0].offered, row.depths.back().offered);
    EXPECT_GE(row.depths[0].accepted, row.depths.back().accepted);
  }
  EXPECT_EQ(results->datasets.begin()->second, "prompts") << "the name of the file";
  EXPECT_THAT(ReportMarkdown(results->report), HasSubstr("temperature 1"));
}

TEST(SuiteRunnerTest, ALatencySuiteNeedsNoPrompts) {
  Suite suite = Small();
  suite.policies.clear();
  suite.models.prompts.clear();
  suite.latency = {{1, 4, 16}, {16, 32}};
  const auto results = RunSuite(suite, Options());
  ASSERT_TRUE(results.ok()) << results.status();
  const VerifyLatency& latency = results->report.panels.at(0).latency;
  ASSERT_EQ(latency.points.size(), 6u);
  for (const LatencyPoint& point : latency.points) {
    EXPECT_GT(point.seconds, 0);
    EXPECT_GT(point.roofline_seconds, 0);
    EXPECT_GT(point.static_seconds, 0);
  }
  EXPECT_LE(latency.static_rmse, latency.roofline_rmse);
}

TEST(SuiteRunnerTest, WhatIsMissingIsNamedBeforeAModelIsLoaded) {
  Suite suite = Small();
  suite.policies = {"ar", "no-such-policy"};
  EXPECT_THAT(RunSuite(suite, Options()).status().message(), HasSubstr("no-such-policy"));
  suite = Small();
  suite.models.prompts = "no-such-file.jsonl";
  EXPECT_TRUE(absl::IsNotFound(RunSuite(suite, Options()).status()));
}

TEST(FirstOfEachDatasetTest, KeepsTheFirstPromptsAndNamesDatasets) {
  const std::vector<BenchPrompt> prompts = {
      {"a", {1}, "x"}, {"b", {1}, "x"}, {"c", {1}}, {"d", {1}, "x"}, {"e", {1}}};
  const auto first = FirstOfEachDataset(prompts, 2, "rest");
  std::vector<std::string> ids;
  for (const BenchPrompt& prompt : first) ids.push_back(prompt.id + prompt.dataset);
  EXPECT_THAT(ids, ::testing::ElementsAre("ax", "bx", "crest", "erest"));
  EXPECT_EQ(FirstOfEachDataset(prompts, 0, "rest").size(), 5u);
}

}  // namespace
}  // namespace bastion
