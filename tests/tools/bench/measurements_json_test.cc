#include "tools/bench/measurements_json.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "gtest/gtest.h"

namespace bastion {
namespace {

using nlohmann::json;

constexpr double kNone = std::numeric_limits<double>::infinity();

PromptMeasurement MeasuredRequest() {
  PromptMeasurement request{"p0", {5, 6}, {}, 1.5, 0.5, 64, 0.25, 2};
  request.deltas = {{1, 1}, {2, 1}};
  request.cycles = {{1, 4, 5, 0.45, {.draft = 0.125, .verify = 0.5}, 2, {}, 10, 2.5, "cost"},
                    {1, 0, 1, 0.25, {.verify = 0.25}, 0, {}, 11, 1, "rows"}};
  return request;
}

Comparison MeasuredComparison() {
  Comparison comparison = {"a box", "t", "d", "in process", {}, {0.5, kNone}, {}, {}};
  comparison.settings.sampling.temperature = 0.5;
  comparison.levels = {
      {{.concurrency = 1}, {{"ar", {{{MeasuredRequest()}, 3}}}, {"default", {{}}}}},
      {{.rate = 2.5}, {}},
      {{.arrivals = "f.jsonl"}, {}}};
  return comparison;
}

TEST(MeasurementsJsonTest, AComparisonHasItsLevelsAndRequests) {
  const json written = ComparisonJson(MeasuredComparison(), absl::OkStatus());
  EXPECT_EQ(written["device"], "a box");
  EXPECT_EQ(written["settings"]["temperature"], 0.5);
  EXPECT_EQ(written["latency_targets"], json({{"gap", 0.5}, {"ttft", nullptr}}));
  ASSERT_EQ(written["levels"].size(), 3u);
  EXPECT_EQ(written["levels"][0]["concurrency"], 1);
  EXPECT_EQ(written["levels"][1]["rate"], 2.5);
  EXPECT_EQ(written["levels"][2]["arrivals"], "f.jsonl");
  const json& run = written["levels"][0]["arms"][0]["rounds"][0];
  EXPECT_EQ(run["rejected"], 3);
  EXPECT_TRUE(run["reliability"].is_null());
  const json& request = run["requests"][0];
  EXPECT_EQ(request["id"], "p0");
  EXPECT_EQ(request["output_token_ids"], json({5, 6}));
  EXPECT_EQ(request["seconds"], 1.5);
  EXPECT_EQ(request["prefill_seconds"], 0.5);
  EXPECT_EQ(request["arrived"], 0.25);
  EXPECT_EQ(request["ended"], 2);
  EXPECT_EQ(request["deltas"], json::parse("[[1, 1], [2, 1]]"));
}

TEST(MeasurementsJsonTest, TheCyclesOfARequestAreColumns) {
  const json written = ComparisonJson(MeasuredComparison(), absl::OkStatus());
  const json& cycles = written["levels"][0]["arms"][0]["rounds"][0]["requests"][0]["cycles"];
  EXPECT_EQ(cycles["committed"], json({1, 1}));
  EXPECT_EQ(cycles["nodes"], json({4, 0}));
  EXPECT_EQ(cycles["rows"], json({5, 1}));
  EXPECT_EQ(cycles["accepted"], json({2, 0}));
  EXPECT_EQ(cycles["expected_length"], json({2.5, 1.0}));
  EXPECT_EQ(cycles["context"], json({10, 11}));
  EXPECT_EQ(cycles["reason"], json({"cost", "rows"}));
  EXPECT_EQ(cycles["predicted_verify"], json({0.45, 0.25}));
  EXPECT_EQ(cycles["draft"], json({0.125, 0.0}));
  EXPECT_EQ(cycles["verify"], json({0.5, 0.25}));
  EXPECT_FALSE(cycles.contains("offered")) << "trees were not kept";
}

TEST(MeasurementsJsonTest, TextsThatDifferAreNamed) {
  const json same = ComparisonJson(MeasuredComparison(), absl::OkStatus());
  EXPECT_EQ(same["texts"], json({{"compared", 1}, {"different", 0}, {"problem", nullptr}}));
  const json different = ComparisonJson(MeasuredComparison(), absl::DataLossError("they differ"));
  EXPECT_EQ(different["texts"]["problem"], "they differ");
}

TEST(MeasurementsJsonTest, PoliciesThatIncludeAPriorAreListed) {
  Comparison comparison = MeasuredComparison();
  comparison.levels[0].arms = {{"ar", {}}, {"fixed:4+prior", {}}, {"unknown", {}}};
  EXPECT_EQ(ComparisonJson(comparison, absl::OkStatus())["policies_with_prior"],
            json({"fixed:4+prior"}));
}

TEST(MeasurementsJsonTest, ReliabilityIsWrittenByBin) {
  Comparison comparison = MeasuredComparison();
  Reliability& reliability = comparison.levels[0].arms[0].rounds[0].reliability;
  reliability.before.Observe(0.25, true);
  const json written = ComparisonJson(comparison, absl::OkStatus());
  const json& bins = written["levels"][0]["arms"][0]["rounds"][0]["reliability"];
  EXPECT_EQ(bins["before"][2], json::parse("[1, 1, 0.25]"));
  EXPECT_EQ(bins["after"][2], json::parse("[0, 0, 0.0]"));
}

TEST(MeasurementsJsonTest, ASuiteHasItsRunsWithTrees) {
  PromptMeasurement request = MeasuredRequest();
  request.cycles[0].offered = {1, 3};
  SuiteResults results;
  results.device = "machine";
  results.mode = "in process";
  results.datasets = {{"p0", "math"}};
  results.left_out = {"a sentence"};
  drafter::BlockAccuracy accuracy;
  accuracy.blocks = {{{4, 3}}};
  accuracy.buckets[2][1] = 5;
  results.accuracies = {{"small", accuracy}};
  results.suite.name = "small";
  results.suite.models = {"t", "d", "p"};
  results.runs = {
      {0.5, 7, 24, 64, {{{.concurrency = 2}, {{"ar", {{{request}}}}}}}, {{"ar", 1000}}}};
  results.latency.points = {{4, 16, 0.5, 0.25, 0.375}};
  results.texts = absl::DataLossError("they differ");
  const json written = SuiteResultsJson(results);
  EXPECT_EQ(written["device"], "machine");
  EXPECT_EQ(written["target"], "t");
  EXPECT_EQ(written["suite"]["name"], "small");
  EXPECT_EQ(written["same_texts"], false);
  EXPECT_EQ(written["datasets"], json({{"p0", "math"}}));
  EXPECT_EQ(written["left_out"], json({"a sentence"}));
  EXPECT_EQ(written["accuracies"][0]["drafter"], "small");
  EXPECT_EQ(written["accuracies"][0]["blocks"], json::parse("[[[4, 3]]]"));
  EXPECT_EQ(written["accuracies"][0]["buckets"][2][1], 5);
  EXPECT_EQ(written["latency"]["points"][0]["static_seconds"], 0.375);
  const json& run = written["runs"][0];
  EXPECT_EQ(run["seed"], 7);
  EXPECT_EQ(run["prompt_tokens"], 24);
  EXPECT_EQ(run["max_new_tokens"], 64);
  EXPECT_EQ(run["peak_memory_bytes"], json({{"ar", 1000}}));
  EXPECT_EQ(run["levels"][0]["concurrency"], 2);
  EXPECT_EQ(run["levels"][0]["arms"][0]["rounds"][0]["requests"][0]["cycles"]["offered"],
            json::parse("[[1, 3], []]"));
}

}  // namespace
}  // namespace bastion
