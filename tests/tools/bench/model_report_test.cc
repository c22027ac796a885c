#include "tools/bench/model_report.h"

#include <nlohmann/json.hpp>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// One row takes 4 ms and every further row 0.1 ms, which the roofline below has no idea of: it
// thinks that 1 byte takes 1 ns.
LatencyModel ExampleModel() {
  ProfiledTarget profiled;
  profiled.target.model = "toy";
  profiled.target.dims = {.layers = 1,
                          .hidden = 1000,
                          .query_heads = 1,
                          .kv_heads = 1,
                          .head_dim = 10,
                          .intermediate = 10,
                          .vocabulary = 100,
                          .bytes_per_weight = 1};
  profiled.target.peaks = {.bytes_per_second = 1e9, .flops_per_second = 1e15};
  for (const int rows : {1, 10, 100}) {
    const double seconds = 4e-3 + 1e-4 * (rows - 1);
    profiled.profile.points.push_back({rows, 0, seconds, seconds});
  }
  profiled.profile.points.push_back({100, 64, 1, 1, /*interpolated=*/true});
  return *DescribeLatencyModel(profiled);
}

TEST(ModelReportTest, TheLatencyModelIsReportedBesideThePapersFigure) {
  const LatencyModel model = ExampleModel();
  const nlohmann::json json = LatencyModelJson(model);
  EXPECT_EQ(json["calibration"]["target"], "toy");
  ASSERT_EQ(json["calibration"]["calibration"].size(), 4u);
  ASSERT_EQ(json["roofline_seconds"].size(), 4u);
  // 1 row: weights 200·1000 + 2·1000·20 + 3·1000·10 = 270000 bytes, states 1100 + 2·10·2 + 4·1020 +
  // 2
  EXPECT_NEAR(json["roofline_seconds"][0].get<double>(), (270000 + 1100 + 40 + 4080 + 2) * 1e-9,
              1e-12);
  EXPECT_EQ(json["static"]["slope"], model.fit.line.slope);
  EXPECT_EQ(json["static"]["intercept_seconds"], model.fit.line.intercept);
  EXPECT_EQ(json["rmse_seconds"]["static"], model.fit.static_rmse);
  EXPECT_LT(json["rmse_seconds"]["static"], json["rmse_seconds"]["roofline"]);
  EXPECT_GT(json["rmse_cut"].get<double>(), 0.9);
  const std::string table = LatencyModelTable(model);
  EXPECT_THAT(table, HasSubstr("3 measured points: 1 to 100 rows after 0, 64 cached tokens."));
  EXPECT_THAT(table, HasSubstr("| bare roofline R | "));
  EXPECT_THAT(table, HasSubstr("(the paper: 87 to 92 %)"));
}

TEST(ModelReportTest, ATargetWithoutPeaksHasNoLatencyModel) {
  EXPECT_FALSE(DescribeLatencyModel({}).ok());
}

// A cycle with a tree of `nodes` nodes.
MeasuredCycle Cycle(int nodes, double expected_length, int accepted, const std::string& reason) {
  MeasuredCycle cycle;
  cycle.nodes = nodes;
  cycle.expected_length = expected_length;
  cycle.accepted = accepted;
  cycle.reason = reason;
  return cycle;
}

TEST(ModelReportTest, ExpectedLengthsAreComparedWithAcceptedNodes) {
  PromptMeasurement one, two;
  one.cycles = {Cycle(4, 2, 0, "cost"), Cycle(4, 3, 4, "cost"), Cycle(0, 1, 0, "length")};
  two.cycles = {Cycle(4, 4, 2, "cost")};
  const LengthFit fit = FitLengths({one, two});
  EXPECT_EQ(fit.cycles, 3) << "a cycle without nodes says nothing";
  EXPECT_DOUBLE_EQ(fit.mean_expected, 2);  // 1, 2 and 3 nodes.
  EXPECT_DOUBLE_EQ(fit.mean_accepted, 2);
  // Σ(x−2)(y−2) = 2 + 0 + 0, Σ(x−2)² = 2, Σ(y−2)² = 8; the ranks of y are 0, 2, 1.
  EXPECT_DOUBLE_EQ(fit.pearson, 0.5);
  EXPECT_DOUBLE_EQ(fit.spearman, 0.5);
  EXPECT_EQ(LengthFitJson(fit)["pearson"], 0.5);
  EXPECT_THAT(LengthFitTable({{"chain", fit}, {"ar", {}}}),
              HasSubstr("| chain | 3 | 2.00 | 2.00 | 0.50 | 0.50 |\n"));
  EXPECT_TRUE(LengthFitJson(FitLengths({})).is_null());
  EXPECT_EQ(LengthFitTable({{"ar", {}}}), "");
}

TEST(ModelReportTest, WarnsOfTreesThatWereCut) {
  PromptMeasurement request;
  request.cycles = {Cycle(7, 2, 1, "share"), Cycle(7, 2, 1, "share"), Cycle(3, 2, 1, "length"),
                    Cycle(7, 2, 1, "rows"), Cycle(9, 2, 1, "policy")};
  LoadRun run;
  run.requests = {request, request};
  PromptMeasurement whole;
  whole.cycles = {Cycle(9, 2, 1, "cost"), Cycle(9, 2, 1, "exhausted"), Cycle(0, 1, 0, "length")};
  LoadRun fine;
  fine.requests = {whole};
  const std::vector<LevelResults> levels = {
      {{.concurrency = 4}, {{"fixed:9", {run}}, {"bastion", {fine}}}}};
  EXPECT_THAT(
      CutWarnings(levels),
      ElementsAre("fixed:9 at concurrency 4: 2 of 10 trees were cut by the rows of the forward "
                  "(--max_rows)",
                  "fixed:9 at concurrency 4: 4 of 10 trees were cut to the request's share of the "
                  "forward's rows (--max_rows, --concurrency)"));
  EXPECT_THAT(CutWarnings({}), IsEmpty());
}

}  // namespace
}  // namespace bastion
