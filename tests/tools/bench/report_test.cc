#include "tools/bench/report.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/temp_folder.h"

namespace bastion {
namespace {

using ::testing::HasSubstr;

// The stages of a cycle whose verify took 0.5 s.
StageSeconds Stages(double draft, double tree, double commit, double transfer) {
  return {.draft = draft, .tree = tree, .verify = 0.5, .commit = commit, .transfer = transfer};
}

// "ar": 4 tokens in 4 s. "fixed:8": 4 tokens in 2 cycles and 1 s, with verify predictions that are
// wrong by 10 % and 50 %.
BenchReport Example() {
  BenchReport report;
  report.device = "a box";
  report.target = "target";
  PromptMeasurement plain{"p0", {5, 6, 7, 8}, {}, 4.0, 0.5};
  for (int i = 0; i < 4; ++i) plain.cycles.push_back({1, 0, 1, 1.0, {.verify = 1.0}});
  PromptMeasurement tree{"p0", {5, 6, 7, 8}, {}, 1.0, 0.5};
  tree.cycles.push_back({3, 4, 5, 0.45, Stages(0.1, 0.01, 0.02, 0.03), 2, {}, 10, 2.5, "cost"});
  tree.cycles.push_back({1, 8, 9, 0.75, Stages(0.3, 0.03, 0.02, 0.01), 0, {}, 13, 1.5, "rows"});
  report.policies = {{"ar", {plain}}, {"fixed:8", {tree}}};
  return report;
}

std::string Content(const std::string& path) {
  std::ostringstream content;
  content << std::ifstream(path).rdbuf();
  return content.str();
}

TEST(BenchReportTest, FiguresMatchValuesComputedByHand) {
  const BenchReport report = Example();
  const PolicyResults& tree = report.policies[1];
  EXPECT_DOUBLE_EQ(tree.tokens_per_second(), 4);
  EXPECT_DOUBLE_EQ(report.SpeedupVsAr(tree), 4);
  EXPECT_DOUBLE_EQ(tree.tau(), 2);
  EXPECT_DOUBLE_EQ(tree.mean_nodes(), 6);
  EXPECT_DOUBLE_EQ(tree.stages().draft, 0.4);
  EXPECT_NEAR(tree.verify_prediction_error_median(), 0.5, 1e-12);
}

TEST(BenchReportTest, SpeedupIsZeroWithoutThePolicyAr) {
  BenchReport report = Example();
  report.policies.erase(report.policies.begin());
  EXPECT_EQ(report.SpeedupVsAr(report.policies[0]), 0);
}

TEST(BenchReportTest, FiguresAreZeroWithoutMeasurements) {
  const PolicyResults empty{"ar", {}};
  EXPECT_EQ(empty.tokens_per_second(), 0);
  EXPECT_EQ(empty.tau(), 0);
  EXPECT_EQ(empty.mean_nodes(), 0);
  EXPECT_EQ(empty.verify_prediction_error_median(), 0);
}

TEST(BenchReportTest, AblationListsPoliciesThatRanWithAndWithoutAPrior) {
  BenchReport report = Example();
  EXPECT_EQ(AblationTable(report), "");
  for (const char* policy : {"fixed:8+prior:table", "fixed:8+prior"}) {
    report.policies.push_back({policy, report.policies[1].prompts});
  }
  const std::string table = AblationTable(report);
  EXPECT_THAT(table, HasSubstr("| fixed:8 | 2.00, 4.00× | 2.00, 4.00× | – | 2.00, 4.00× |\n"));
  EXPECT_THAT(table, ::testing::Not(HasSubstr("| ar |")));
}

TEST(BenchReportTest, EqualTextsPass) { EXPECT_TRUE(CheckSameTexts(Example()).ok()); }

TEST(BenchReportTest, ADifferentTokenIsReported) {
  BenchReport report = Example();
  report.policies[1].prompts[0].output[2] = 9;
  const absl::Status status = CheckSameTexts(report);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("p0"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("fixed:8"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("output token 2"));
}

TEST(BenchReportTest, DifferentOutputsAreCounted) {
  BenchReport report = Example();
  const LoadRun same = {report.policies[0].prompts};
  LoadRun other = same;
  other.requests[0].output[1] = 9;
  report.levels = {{{.concurrency = 1}, {{"ar", {same}}, {"fixed:8", {same}}}},
                   {{.concurrency = 8}, {{"ar", {other, same}}, {"fixed:8", {other, same}}}}};
  const auto requests = static_cast<int>(same.requests.size());
  const TextDifferences found = FindDifferentTexts(report);
  EXPECT_EQ(found.outputs, 6 * requests);
  EXPECT_EQ(found.different, 2);
  EXPECT_TRUE(absl::IsDataLoss(found.first));
  const testing::TempFolder folder;
  ASSERT_TRUE(WriteReport(report, folder.path()).ok());
  const auto results = nlohmann::json::parse(Content(folder.File("results.json")));
  EXPECT_EQ(results["outputs"]["compared"], 6 * requests);
  EXPECT_EQ(results["outputs"]["different"], 2);
  EXPECT_THAT(
      Content(folder.File("report.md")),
      HasSubstr(absl::StrCat("**Outputs differ:** 2 of ", 6 * requests, " outputs differ")));
}

TEST(BenchReportTest, PlotsAreDrawnWithPython3WithoutAVirtualEnvironment) {
  const testing::TempFolder folder;
  std::filesystem::create_directories(folder.File("deploy/measure"));
  std::ofstream(folder.File("deploy/measure/plots.py"))
      << "import sys\nopen(sys.argv[1] + '/plot', 'w').write('drawn')\n";
  const absl::Status drawn = DrawPlots(folder.path(), folder.path());
  EXPECT_TRUE(drawn.ok()) << drawn;
  EXPECT_EQ(Content(folder.File("plot")), "drawn");
  std::ofstream(folder.File("deploy/measure/plots.py")) << "raise SystemExit(1)\n";
  EXPECT_TRUE(absl::IsUnavailable(DrawPlots(folder.path(), folder.path())));
}

TEST(BenchReportTest, ADifferentTokenAtAnotherLevelIsReported) {
  BenchReport report = Example();
  LoadRun run = {report.policies[0].prompts};
  report.levels = {{{.concurrency = 8}, {{"ar", {run}}}}};
  EXPECT_TRUE(CheckSameTexts(report).ok());
  run.requests[0].output[1] = 9;
  report.levels[0].arms[0].rounds.push_back(run);
  const absl::Status status = CheckSameTexts(report);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("ar at concurrency 8"));
}

TEST(BenchReportTest, DifferentNumbersOfRequestsAreReportedUnlessExpected) {
  BenchReport report = Example();
  report.policies[1].prompts.push_back(report.policies[1].prompts[0]);
  EXPECT_TRUE(absl::IsInternal(CheckSameTexts(report)));
  report.counts_differ = true;
  EXPECT_TRUE(CheckSameTexts(report).ok());
}

TEST(BenchReportTest, TheRequestsOfACycleShareItsTimesByTheirRows) {
  BenchReport report = Example();
  // Two of the six rows of a call that took 3 s.
  PromptMeasurement shared{"p1", {5}, {}, 3.0, 0.5};
  shared.cycles.push_back({1, 1, 6, 3.0, {.verify = 3.0}});
  const PolicyResults policy{"x", {shared}};
  EXPECT_DOUBLE_EQ(policy.stages().verify, 1);
}

TEST(BenchReportTest, AShorterTextIsDifferent) {
  BenchReport report = Example();
  report.policies[1].prompts[0].output.pop_back();
  EXPECT_TRUE(absl::IsDataLoss(CheckSameTexts(report)));
}

TEST(BenchReportTest, FilesContainTheFiguresAndTheVerdict) {
  const testing::TempFolder folder;
  const std::string report = folder.File("a/report");
  ASSERT_TRUE(CreateReportFolder(report).ok());
  ASSERT_TRUE(CreateReportFolder(report).ok()) << "it exists already";
  ASSERT_TRUE(WriteReport(Example(), report).ok());
  const auto results = nlohmann::json::parse(Content(report + "/results.json"));
  EXPECT_EQ(results["policies"][1]["prompts"][0]["output_token_ids"], nlohmann::json({5, 6, 7, 8}));
  EXPECT_EQ(results["policies"][1]["speedup_vs_ar"], 4.0);
  EXPECT_EQ(results["policies"][1]["verify_trace"][0], nlohmann::json({5, 0.45, 0.5}));
  const auto& cycles = results["policies"][1]["prompts"][0];
  EXPECT_EQ(cycles["accepted_nodes"], nlohmann::json({2, 0}));
  EXPECT_EQ(cycles["expected_lengths"], nlohmann::json({2.5, 1.5}));
  EXPECT_EQ(cycles["contexts"], nlohmann::json({10, 13}));
  EXPECT_EQ(cycles["budget_reasons"], nlohmann::json({"cost", "rows"}));
  EXPECT_EQ(results["policies"][1]["expected_length_fit"]["cycles"], 2);
  EXPECT_TRUE(results["policies"][0]["expected_length_fit"].is_null()) << "no trees";
  EXPECT_TRUE(results["latency_model"].is_null()) << "not in process";
  EXPECT_EQ(results["warnings"], nlohmann::json::array());
  const std::string markdown = Content(report + "/report.md");
  EXPECT_THAT(markdown, HasSubstr("| fixed:8 | 4.0 | 4.00× | 2.00 | 6.0 | 200.000 |"));
  EXPECT_THAT(markdown, HasSubstr("Every policy generated the same tokens."));
}

TEST(BenchReportTest, TreesThatWereCutAreAWarningInEveryForm) {
  BenchReport report = Example();
  report.levels = {{{.concurrency = 1}, {{"fixed:8", {LoadRun{report.policies[1].prompts}}}}}};
  const std::string warning =
      "fixed:8 at concurrency 1: 1 of 2 trees were cut by the rows of the forward (--max_rows)";
  EXPECT_THAT(ReportTables(report), HasSubstr("**Warning:** " + warning + ".\n"));
  const testing::TempFolder folder;
  ASSERT_TRUE(WriteReport(report, folder.path()).ok());
  EXPECT_THAT(Content(folder.File("report.md")), HasSubstr(warning));
  const auto results = nlohmann::json::parse(Content(folder.File("results.json")));
  EXPECT_EQ(results["warnings"], nlohmann::json({warning}));
}

TEST(BenchReportTest, AnOpenLoopHasNoConcurrency) {
  const testing::TempFolder folder;
  const auto concurrency = [&](const LoadLevel& level) {
    BenchReport report = Example();
    report.levels = {{level, {}}};
    EXPECT_TRUE(WriteReport(report, folder.path()).ok());
    const auto results = nlohmann::json::parse(Content(folder.File("results.json")));
    return results["settings"]["concurrency"];
  };
  EXPECT_EQ(concurrency({.concurrency = 4}), 4);
  EXPECT_TRUE(concurrency({.rate = 2}).is_null());
}

TEST(BenchReportTest, AFolderThatCannotBeWrittenIsReported) {
  for (const absl::Status& status :
       {CreateReportFolder("/proc/nowhere"), WriteReport(Example(), "/proc/nowhere")}) {
    EXPECT_TRUE(absl::IsUnavailable(status));
    EXPECT_THAT(std::string(status.message()), HasSubstr("/proc/nowhere"));
  }
}

}  // namespace
}  // namespace bastion
