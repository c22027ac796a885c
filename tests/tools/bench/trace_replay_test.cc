// Replays hand-made traces, and a recording of an arm on a simulated device.
#include "tools/bench/trace_replay.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fake_stages.h"
#include "tests/support/simulated_device.h"
#include "tests/support/temp_folder.h"
#include "tools/bench/arm.h"

namespace bastion {
namespace {

using ::bastion::testing::DeviceCurve;
using ::bastion::testing::FakeDrafter;
using ::bastion::testing::FakeVerifier;
using ::testing::HasSubstr;

// Profile says: 1 row takes 1 ms, 5 rows take `five` ms.
TraceHeader Header(double five) {
  TraceHeader header;
  header.target = *FakeVerifier().Info();
  header.target.device = "a box";
  header.profile.points = {{1, 16, 0.001, 0.001}, {5, 16, 1e-3 * five, 1e-3 * five}};
  return header;
}

// `count` cycles of one sequence.
void Add(int count, const CycleTrace& cycle, Trace* trace) {
  trace->cycles.insert(trace->cycles.end(), count, cycle);
}

CycleTrace Cycle(int nodes, double verify_ms, int committed) {
  CycleTrace cycle;
  cycle.model = 1;
  cycle.rows = 1 + nodes;
  cycle.context = 16;
  cycle.committed = committed;
  cycle.stages.verify = 1e-3 * verify_ms;
  cycle.predicted.verify = cycle.stages.verify;
  return cycle;
}

const EstimatorResult& Find(const ReplayReport& report, const std::string& name) {
  return *std::find_if(report.estimators.begin(), report.estimators.end(),
                       [&](const EstimatorResult& result) { return result.name == name; });
}

TEST(TraceReplayTest, AnEstimatorThatOverratesTheTreeLosesTheTree) {
  // Plain: 1 token in 1 ms. Tree: 2 tokens in 1.5 ms, which profile takes for 3 ms.
  Trace trace = {Header(/*five=*/3), {}};
  Add(30, Cycle(0, 1, 1), &trace);
  Add(10, Cycle(4, 1.5, 2), &trace);
  const auto report = ReplayTrace(trace);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->cycles, 40);
  EXPECT_EQ(report->compared_cycles, 40);
  // "static" never learns: it chooses plain decoding, 1000 instead of 1333 tokens per second.
  const EstimatorResult& fixed = Find(*report, "static");
  EXPECT_NEAR(fixed.regret_tokens_per_second, 2000 / 1.5 - 1000, 0.1);
  EXPECT_NEAR(fixed.regret_share, 0.25, 1e-4);
  EXPECT_NEAR(fixed.rmse_seconds, std::sqrt(10 * 0.0015 * 0.0015 / 40), 1e-6);
  EXPECT_NEAR(fixed.median_error, 0, 1e-4);
  EXPECT_NEAR(fixed.p95_error, 1, 1e-4);
  // Hindsight is the oracle.
  EXPECT_EQ(Find(*report, "mean of size").regret_share, 0);
  EXPECT_NEAR(Find(*report, "mean of size").rmse_seconds, 0, 1e-9);
  // The staircase learns the time of the tree, so it errs less from then on.
  EXPECT_LT(Find(*report, "staircase").rmse_seconds, fixed.rmse_seconds);
  EXPECT_EQ(Find(*report, "recorded").rmse_seconds, 0);
}

TEST(TraceReplayTest, ErrorsThatDoNotChangeTheChoiceCostNothing) {
  // The tree takes 1.9 ms instead of 1.5, and brings 3 tokens instead of 1.
  Trace trace = {Header(/*five=*/1.9), {}};
  Add(20, Cycle(0, 1, 1), &trace);
  Add(20, Cycle(4, 1.5, 3), &trace);
  const auto report = ReplayTrace(trace);
  ASSERT_TRUE(report.ok()) << report.status();
  for (const EstimatorResult& result : report->estimators) {
    EXPECT_EQ(result.regret_share, 0) << result.name;
  }
  EXPECT_GT(Find(*report, "static").rmse_seconds, 0.0001);
}

TEST(TraceReplayTest, OtherStagesCountInTheChoice) {
  // With a draft of 2 ms, the tree no longer pays; the estimator that overrates it is right.
  Trace trace = {Header(/*five=*/3), {}};
  Add(20, Cycle(0, 1, 1), &trace);
  CycleTrace tree = Cycle(4, 1.5, 2);
  tree.stages.draft = 0.002;
  tree.drafts = 1;
  Add(20, tree, &trace);
  const auto report = ReplayTrace(trace);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(Find(*report, "static").regret_share, 0);
}

TEST(TraceReplayTest, CostModelsDoNotTeachEachOther) {
  Trace trace = {Header(/*five=*/3), {}};
  Add(200, Cycle(0, 2, 1), &trace);  // Twice as slow as profiled.
  const auto taught = ReplayTrace(trace);
  for (size_t i = 0; i < trace.cycles.size(); ++i) trace.cycles[i].model = static_cast<int>(i);
  const auto apart = ReplayTrace(trace);
  ASSERT_TRUE(taught.ok() && apart.ok());
  EXPECT_LT(Find(*taught, "staircase").median_error, 0.05);
  EXPECT_NEAR(Find(*apart, "staircase").median_error, 0.5, 1e-6);
}

TEST(TraceReplayTest, TheBatchModelKnowsTheExpertsOfTheRecording) {
  // Random tokens touch 8 experts with 5 rows, this text 4. An expert takes 0.5 ms.
  Trace trace = {Header(/*five=*/4), {}};
  trace.header.profile.points[0].experts = 2;
  trace.header.profile.points[1].experts = 8;
  trace.header.profile.expert_seconds = 0.5e-3;
  CycleTrace tree = Cycle(4, 2, 1);
  tree.experts = 4;
  Add(20, tree, &trace);
  const auto report = ReplayTrace(trace);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_LT(Find(*report, "batch").rmse_seconds, 0.7 * Find(*report, "staircase").rmse_seconds);
}

TEST(TraceReplayTest, WithoutAChoiceThereIsNoRegret) {
  Trace trace = {Header(3), {}};
  Add(20, Cycle(0, 1, 1), &trace);
  Add(2, Cycle(4, 1.5, 2), &trace);  // Too few to know their mean.
  const auto report = ReplayTrace(trace);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->compared_cycles, 0);
  EXPECT_THAT(report->Json().dump(), ::testing::Not(HasSubstr("regret")));
}

TEST(TraceReplayTest, TheReportNamesAllEstimators) {
  Trace trace = {Header(3), {}};
  Add(20, Cycle(0, 1, 1), &trace);
  Add(20, Cycle(4, 1.5, 2), &trace);
  const auto report = ReplayTrace(trace);
  const nlohmann::json json = report->Json();
  std::vector<std::string> names;
  for (const auto& row : json["estimators"]) names.push_back(row["name"]);
  EXPECT_THAT(names, ::testing::ElementsAre("roofline", "static", "ema", "ema+calib", "staircase",
                                            "batch", "mean of size", "recorded"));
  EXPECT_EQ(json["device"], "a box");
  EXPECT_EQ(json["cycles"], 40);
  EXPECT_EQ(json["compared_cycles"], 40);
}

class TraceFileTest : public ::testing::Test {
 protected:
  absl::Status Read(const std::string& lines) {
    const std::string file = folder_.File("bad.jsonl");
    std::ofstream(file) << lines;
    return ReadTrace(file).status();
  }

  // A recording of three requests on toy stages.
  std::string Record() {
    const std::string file = folder_.File("traces.jsonl");
    FakeVerifier verifier;
    FakeDrafter drafter(&verifier);
    const LatencyProfile table = DeviceCurve::Demo().Profile();
    auto recorder = TraceRecorder::Create(file, {*verifier.Info(), table});
    ArmStages stages = {&verifier, &drafter};
    stages.recorder = recorder->get();
    const std::vector<BenchPrompt> prompts = {{"a", {1, 2, 7}}, {"b", {3, 9}}, {"c", {4, 5, 6}}};
    const BenchSettings settings = {{}, /*max_new_tokens=*/8};
    const auto plans = PlanLoads({.concurrency = {2}}, prompts, settings);
    EXPECT_TRUE((*MakeLocalArm("fixed:4", stages, table, {}))->Run(plans->front(), settings).ok());
    EXPECT_TRUE((*recorder)->Close().ok());
    return file;
  }

  const testing::TempFolder folder_;
};

TEST_F(TraceFileTest, ARecordingHasALinePerCycleWithItsSizesAndPredictions) {
  const auto trace = ReadTrace(Record());
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_FALSE(trace->header.profile.points.empty());
  int committed = 0;
  for (const CycleTrace& cycle : trace->cycles) {
    EXPECT_EQ(cycle.policy, "fixed:4");
    EXPECT_EQ(cycle.level, "concurrency 2");
    EXPECT_NEAR(cycle.stages.verify, 0.001 + 1e-5 * cycle.rows, 1e-9);
    EXPECT_GT(cycle.predicted.verify, 0);
    EXPECT_GE(cycle.predicted.cycle, cycle.predicted.draft);
    ASSERT_GE(cycle.predicted.curve.size(), 2u);
    EXPECT_EQ(cycle.predicted.curve[0].first, 0);
    EXPECT_EQ(cycle.predicted.curve[1].first, 1);
    committed += cycle.committed;
  }
  EXPECT_EQ(committed, 3 * 8);
  EXPECT_EQ(trace->cycles[0].sequences, 2);
  EXPECT_EQ(trace->cycles[0].drafts, 2);
  EXPECT_EQ(trace->cycles[0].context, 1) << "the mean of 2 and 1 cached tokens, rounded down";
  EXPECT_EQ(trace->cycles[0].rows, 10);
  EXPECT_TRUE(trace->cycles[0].first_draft);
  EXPECT_FALSE(trace->cycles[1].first_draft);
  EXPECT_TRUE(ReplayTrace(*trace).ok());
}

TEST_F(TraceFileTest, WrongLinesAreNamed) {
  const std::string file = Record();
  std::string header;
  std::ifstream stream(file);
  std::getline(stream, header);
  EXPECT_THAT(std::string(Read("").message()), HasSubstr("no cycles"));
  EXPECT_THAT(std::string(Read("{}\n").message()), HasSubstr("bad.jsonl:1: "));
  EXPECT_THAT(std::string(Read("{\"trace\": 99}\n").message()), HasSubstr("version"));
  EXPECT_THAT(std::string(Read(header + "\nnot json\n").message()), HasSubstr("bad.jsonl:2: "));
  EXPECT_TRUE(absl::IsNotFound(ReadTrace("/nowhere").status()));
  EXPECT_TRUE(absl::IsUnavailable(TraceRecorder::Create("/nowhere/x", {}).status()));
}

}  // namespace
}  // namespace bastion
