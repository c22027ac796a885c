#include "tools/bench/suite_report.h"

#include <nlohmann/json.hpp>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/temp_folder.h"
#include "tools/bench/report.h"
#include "tools/bench/suite_tables.h"

namespace bastion {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

ArmFigures Row(const std::string& policy, const std::string& dataset, double speedup, double tau) {
  ArmFigures row;
  row.cell.dataset = dataset;
  row.policy = policy;
  row.requests = 3;
  row.speedup = speedup;
  row.stream_tokens_per_second = 100 * speedup;
  row.tau = tau;
  row.nodes = 28;
  row.acceptance = 0.5;
  row.peak_memory = 2000000;
  row.times.ttft = 0.25;
  row.lengths = {{1, 1}, {3, 3}};
  row.depths = {{4, 8, 3}};
  row.expected_length = {0.8, 0.7, 4, {{1.5, 2}}};
  return row;
}

// Two datasets whose best budgets differ.
std::vector<ArmFigures> Figures() {
  std::vector<ArmFigures> all;
  for (const char* const dataset : {"", "code", "math"}) {
    const bool code = std::string(dataset) == "code";
    all.push_back(Row("ar", dataset, 1, 1));
    all.push_back(Row("bastion", dataset, 2.5, 3));
    all.push_back(Row("fixed:16", dataset, code ? 4 : 1.5, 2));
    all.push_back(Row("fixed:64", dataset, code ? 1.5 : 2, 4));
    all.push_back(Row("beam:4x7", dataset, 1.6, 2.5));
  }
  all[1].spread = Interval{2.25, 2.75};
  return all;
}

SuiteReport Report(const std::string& device) {
  SuiteReport report;
  report.suite = *ParseSuite(json({{"name", "small"},
                                   {"title", "Small"},
                                   {"paper", "A paper"},
                                   {"reported", {"4.2× on its machine."}},
                                   {"target", "t"},
                                   {"drafter", "d"},
                                   {"policies", {"ar", "bastion"}},
                                   {"tables", {"datasets", "depths"}}})
                                 .dump(),
                             "small");
  report.panels = {{device, "t", "d", "in process", Figures()}};
  return report;
}

TEST(SuiteTablesTest, TheOracleIsTheBestFixedBudgetOfEachDataset) {
  const std::vector<ArmFigures> figures = Figures();
  EXPECT_EQ(Oracle(figures, {.dataset = "code"})->policy, "fixed:16");
  EXPECT_EQ(Oracle(figures, {.dataset = "math"})->policy, "fixed:64");
  EXPECT_EQ(Oracle(figures, {.dataset = "none"}), nullptr);
  const std::string table = SuiteTable("datasets", figures);
  EXPECT_THAT(table, HasSubstr("| policy | code | τ | math | τ | mean | τ |"));
  EXPECT_THAT(table, HasSubstr("| bastion | 2.50× | 3.00 | 2.50× | 3.00 | 2.50× | 3.00 |"));
  EXPECT_THAT(table, HasSubstr("| oracle | 4.00×, fixed:16 | 2.00 | 2.00×, fixed:64 | 4.00 | "
                               "3.00× | 3.00 |"));
  EXPECT_THAT(SuiteTable("budgets", figures), HasSubstr("| oracle | 3.00× | 3.00 |"));
}

TEST(SuiteTablesTest, EveryTableHasTheRowsOfItsPolicies) {
  const std::vector<ArmFigures> figures = Figures();
  EXPECT_THAT(SuiteTable("budgets", figures),
              HasSubstr("| bastion | 2.50× (2.25–2.75) | 3.00 | 28.0 | 50.0 % |"));
  EXPECT_THAT(SuiteTable("stages", figures), HasSubstr("| fixed:16 | 29.0 | 2.00 |"));
  EXPECT_THAT(SuiteTable("correlation", figures), HasSubstr("| bastion | 4 | 0.800 | 0.700 |"));
  EXPECT_THAT(SuiteTable("histogram", figures),
              HasSubstr("| bastion | 3.00 | 25.0 % | 0.0 % | 75.0 % |"));
  EXPECT_THAT(SuiteTable("depths", figures), HasSubstr("| bastion | 3 / 8 |"));
  EXPECT_THAT(SuiteTable("generation", figures),
              AllOf(HasSubstr("| bastion | 250.0 | 2.50× | 50.0 % | 3.00 |"),
                    HasSubstr("| 2.0 | +0.00 % |")));
}

TEST(SuiteTablesTest, ShapesAreComparedOnlyAtTheSameSize) {
  std::vector<ArmFigures> figures = Figures();
  EXPECT_THAT(SuiteTable("topology", figures),
              HasSubstr("fixed:16 against beam:4x7: nodes +0.0 %, speed -6.2 %, τ -20.0 %."));
  for (ArmFigures& row : figures) {
    if (row.policy == "beam:4x7") row.nodes = 20;
  }
  EXPECT_THAT(SuiteTable("topology", figures),
              AllOf(Not(HasSubstr("against beam:4x7")), HasSubstr("No best-first tree")));
}

TEST(SuiteTablesTest, CrossTablesNeedSeveralColumns) {
  std::vector<ArmFigures> figures = {Row("ar", "", 1, 1), Row("linear:6", "", 1.5, 3)};
  EXPECT_EQ(SuiteTable("prompts", figures), "");
  EXPECT_EQ(SuiteTable("load", figures), "");
  for (const ArmFigures& row : std::vector<ArmFigures>(figures)) {
    ArmFigures longer = row;
    longer.cell.prompt_tokens = 800;
    figures.push_back(longer);
  }
  EXPECT_THAT(SuiteTable("prompts", figures),
              HasSubstr("| linear:6 | 150.0 (1.50×) | 150.0 (1.50×) |"));
}

TEST(SuiteReportTest, IsReadAsItWasWritten) {
  const json written = ReportJson(Report("machine"), {json::array({1})});
  const auto read = ParseReport(written, "here");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(ReportJson(*read, {json::array({1})}), written);
  EXPECT_THAT(ReportMarkdown(*read),
              AllOf(HasSubstr("# small: Small"), HasSubstr("- 4.2× on its machine."),
                    HasSubstr("## machine"), HasSubstr("Speedup by dataset"),
                    HasSubstr("Every policy generated the same tokens.")));
}

TEST(SuiteReportTest, OtherFilesAreRefused) {
  const auto problem = [](const json& content) {
    return std::string(ParseReport(content, "here").status().message());
  };
  EXPECT_THAT(problem({{"policies", 1}}), AllOf(HasSubstr("here"), HasSubstr("not the results")));
  json broken = ReportJson(Report("machine"), {});
  broken["panels"][0].erase("figures");
  EXPECT_THAT(problem(broken), HasSubstr("figures"));
  broken["panels"] = json::array();
  EXPECT_THAT(problem(broken), HasSubstr("no panel"));
}

class MergeTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const json& results) {
    const std::string folder = folder_.File(name);
    EXPECT_TRUE(CreateReportFolder(folder).ok());
    EXPECT_TRUE(WriteSuiteReport(results, folder).ok());
    return folder;
  }

  const testing::TempFolder folder_;
};

TEST_F(MergeTest, APanelPerMachine) {
  const std::string a = Write("a", ReportJson(Report("small machine"), {}));
  const std::string b = Write("b", ReportJson(Report("large machine"), {}));
  const auto merged = MergeReports({a, b});
  ASSERT_TRUE(merged.ok()) << merged.status();
  const auto report = ParseReport(*merged, "merged");
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(report->panels.size(), 2u);
  EXPECT_EQ(report->panels[1].device, "large machine");
  EXPECT_THAT(ReportMarkdown(*report),
              AllOf(HasSubstr("## small machine"), HasSubstr("## large machine")));
}

TEST_F(MergeTest, WhatDoesNotFitIsRefused) {
  const std::string a = Write("a", ReportJson(Report("machine"), {}));
  const std::string same = Write("same", ReportJson(Report("machine"), {}));
  SuiteReport other = Report("other machine");
  other.suite.name = "other";
  const std::string b = Write("b", ReportJson(other, {}));
  EXPECT_THAT(MergeReports({a, same}).status().message(), HasSubstr("same device"));
  EXPECT_THAT(MergeReports({a, b}).status().message(),
              AllOf(HasSubstr("small"), HasSubstr("other")));
  EXPECT_TRUE(absl::IsNotFound(MergeReports({folder_.File("none")}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(MergeReports({}).status()));
}

TEST(LatencyTableTest, ShowsTheErrorsByContext) {
  VerifyLatency latency;
  EXPECT_EQ(LatencyTable(latency), "");
  latency.points = {{1, 64, 0.010, 0.006, 0.011}, {8, 256, 0.020, 0.010, 0.019}};
  latency.slope = 2;
  latency.intercept = 0.001;
  EXPECT_THAT(LatencyTable(latency), AllOf(HasSubstr("| 64 | 1 | 4.000 | 1.000 | 75 % |"),
                                           HasSubstr("| 256 | 1 | 10.000 | 1.000 | 90 % |"),
                                           HasSubstr("| all | 2 | 7.616 | 1.000 | 87 % |")));
}

}  // namespace
}  // namespace bastion
