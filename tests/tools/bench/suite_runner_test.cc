// Runs small suites on the demo pair.
#include "tools/bench/suite_runner.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Suite Small() {
  Suite suite;
  suite.name = "small";
  suite.models = {"deploy/demo_model/target", "deploy/demo_model/drafter",
                  "deploy/demo_model/prompts.jsonl"};
  suite.policies = {"ar", "chain"};
  suite.grid.temperatures = {0, 1};
  suite.grid.prompt_tokens = {24};
  suite.grid.max_new_tokens = {6};
  suite.load = {.warmup = 1, .prompts_per_dataset = 2, .max_rows = 32};
  suite.tables = {"datasets"};
  return suite;
}

SuiteOptions Options() {
  SuiteOptions options;
  options.local.device.threads = 2;
  options.source_folder = BASTION_SOURCE_DIR;
  return options;
}

// Checks the requests of a policy at one setting.
void ExpectMeasured(const ArmResults& arm) {
  bool has_tree = false;
  for (const PromptMeasurement& request : arm.rounds.at(0).requests) {
    EXPECT_FALSE(request.output.empty());
    EXPECT_GT(request.deltas.at(0).at, request.arrived);
    EXPECT_GT(request.seconds, 0);
    for (const MeasuredCycle& cycle : request.cycles) has_tree |= !cycle.offered.empty();
  }
  EXPECT_EQ(has_tree, arm.policy != "ar") << arm.policy;
}

TEST(SuiteRunnerTest, EveryCellOfTheGridIsMeasured) {
  Suite suite = Small();
  suite.grid.concurrencies = {1, 2};
  const auto results = RunSuite(suite, Options());
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_TRUE(results->texts.ok()) << results->texts;
  EXPECT_EQ(results->mode, "in process");
  ASSERT_EQ(results->runs.size(), 2u) << "two temperatures";
  for (const SuiteRun& run : results->runs) {
    EXPECT_EQ(run.prompt_tokens, 24);
    ASSERT_EQ(run.levels.size(), 2u);
    for (const LevelResults& level : run.levels) {
      ASSERT_EQ(level.arms.size(), 2u);
      for (const ArmResults& arm : level.arms) {
        EXPECT_EQ(arm.rounds.at(0).requests.size(), level.level.concurrency == 1 ? 2u : 4u);
        ExpectMeasured(arm);
        EXPECT_GT(run.peak_memory.at(arm.policy), int64_t{30} << 20)
            << "the target's weights alone are larger";
      }
    }
  }
  EXPECT_EQ(results->datasets.begin()->second, "prompts") << "the name of the file";
}

TEST(SuiteRunnerTest, EachPolicyDraftsWithTheDrafterThatItNames) {
  Suite suite = Small();
  suite.grid.temperatures = {0};
  suite.grid.max_new_tokens = {24};
  suite.models.drafters = {{"copy", suite.models.drafter}, {"none", "no-such-folder"}};
  suite.policies = {"ar", "fixed:8", "fixed:8@copy", "fixed:8@none"};
  suite.tables = {"blocks"};
  const auto results = RunSuite(suite, Options());
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_TRUE(results->texts.ok()) << results->texts;
  EXPECT_THAT(results->left_out, ElementsAre(AllOf(HasSubstr("fixed:8@none is left out"),
                                                   HasSubstr("--drafters none=DIR"))));
  EXPECT_THAT(results->suite.policies, ElementsAre("ar", "fixed:8", "fixed:8@copy"));
  const std::vector<ArmResults>& arms = results->runs.at(0).levels.at(0).arms;
  ASSERT_EQ(arms.size(), 3u);
  for (size_t i = 0; i < arms[1].rounds[0].requests.size(); ++i) {
    EXPECT_EQ(arms[1].rounds[0].requests[i].cycles.size(),
              arms[2].rounds[0].requests[i].cycles.size());
  }
  ASSERT_EQ(results->accuracies.size(), 2u);
  const drafter::BlockAccuracy& own = results->accuracies[0].accuracy;
  EXPECT_EQ(results->accuracies[0].drafter, "");
  EXPECT_EQ(results->accuracies[1].drafter, "copy");
  EXPECT_EQ(own.blocks, results->accuracies[1].accuracy.blocks);
  ASSERT_EQ(own.blocks.size(), 1u) << "a DFlash drafter has one block";
  EXPECT_GT(own.blocks[0][0].right, 0);
}

TEST(SuiteRunnerTest, SeveralDraftersNeedEnginesInThisProcess) {
  Suite suite = Small();
  suite.models.drafters = {{"copy", suite.models.drafter}};
  suite.policies = {"ar", "chain@copy"};
  SuiteOptions options = Options();
  options.endpoint = "localhost:1";
  EXPECT_THAT(RunSuite(suite, options).status().message(), HasSubstr("remove --endpoint"));
}

TEST(SuiteRunnerTest, ALatencySuiteNeedsNoPrompts) {
  Suite suite = Small();
  suite.policies.clear();
  suite.models.prompts.clear();
  suite.latency = {{1, 4, 16}, {16, 32}};
  const auto results = RunSuite(suite, Options());
  ASSERT_TRUE(results.ok()) << results.status();
  const VerifyLatency& latency = results->latency;
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
