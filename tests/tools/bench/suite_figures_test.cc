#include "tools/bench/suite_figures.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/bench/bootstrap.h"
#include "tools/bench/peak_memory.h"

namespace bastion {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(BootstrapTest, TheIntervalContainsTheRatioAndShrinksWithMorePrompts) {
  std::vector<PairedWork> prompts;
  for (int i = 0; i < 8; ++i) prompts.push_back({60, 1.0 + 0.1 * i, 60, 3});
  const auto few = BootstrapRatio(prompts);
  ASSERT_TRUE(few.has_value());
  EXPECT_LT(few->low, RateRatio(prompts));
  EXPECT_GT(few->high, RateRatio(prompts));
  std::vector<PairedWork> more;
  for (int copy = 0; copy < 16; ++copy) more.insert(more.end(), prompts.begin(), prompts.end());
  const auto many = BootstrapRatio(more);
  EXPECT_LT(many->high - many->low, (few->high - few->low) / 2);
  EXPECT_EQ(BootstrapRatio(prompts)->low, few->low) << "the draws are reproducible";
}

TEST(BootstrapTest, OnePromptHasNoInterval) {
  EXPECT_DOUBLE_EQ(RateRatio({{20, 1, 10, 1}}), 2);
  EXPECT_FALSE(BootstrapRatio({{20, 1, 10, 1}}).has_value());
  EXPECT_EQ(RateRatio({{20, 0, 10, 1}}), 0);
}

TEST(PeakMemoryTest, SeesAnAllocation) {
  ResetPeakMemory();
  const int64_t before = PeakMemory();
  ASSERT_GT(before, 0);
  constexpr size_t kBytes = size_t{64} << 20;
  const std::vector<char> block(kBytes, 1);
  EXPECT_GE(PeakMemory(), before + static_cast<int64_t>(kBytes / 2)) << block.back();
}

// A request of one cycle per committed length, each with a tree of a chain of three nodes.
PromptMeasurement Request(const std::string& id, const std::vector<int>& lengths, double seconds) {
  PromptMeasurement request;
  request.id = id;
  request.seconds = seconds;
  double at = 0.5;  // The time to the first token.
  for (const int length : lengths) {
    MeasuredCycle cycle;
    cycle.committed_length = length;
    cycle.nodes = 3;
    cycle.accepted = length - 1;
    cycle.offered = {1, 1, 1};
    cycle.expected_length = length + 0.5;
    cycle.stages.verify = 0.01;
    request.cycles.push_back(cycle);
    request.deltas.push_back({at, length});
    request.output.insert(request.output.end(), length, 7);
    at += 0.25;
  }
  request.ended = at;
  return request;
}

PromptMeasurement Plain(const std::string& id, int tokens, double seconds) {
  PromptMeasurement request = Request(id, std::vector<int>(tokens, 1), seconds);
  for (MeasuredCycle& cycle : request.cycles) {
    cycle.nodes = 0;
    cycle.offered.clear();
    cycle.expected_length = 1;
  }
  return request;
}

SuiteRun Measured(uint64_t seed, double seconds) {
  LevelResults level;
  level.level.concurrency = 1;
  level.arms = {{"ar", {{{Plain("a", 4, 4), Plain("b", 4, 4)}}}},
                {"chain", {{{Request("a", {3, 1}, seconds), Request("b", {2, 2}, seconds)}}}}};
  return {0, seed, 0, {level}, {{"chain", static_cast<int64_t>(1000 * seed)}}};
}

const ArmFigures& Of(const std::vector<ArmFigures>& all, const std::string& policy,
                     const std::string& dataset) {
  for (const ArmFigures& row : all) {
    if (row.policy == policy && row.cell.dataset == dataset) return row;
  }
  static const ArmFigures none;
  ADD_FAILURE() << policy << " " << dataset;
  return none;
}

TEST(SuiteFiguresTest, AreOverAllSeedsAndRounds) {
  const DatasetOf datasets = {{"a", "math"}, {"b", "code"}};
  const auto all = ComputeSuiteFigures({Measured(1, 1), Measured(2, 3)}, datasets);
  ASSERT_EQ(all.size(), 6u) << "two policies; all prompts and two datasets";
  const ArmFigures& chain = Of(all, "chain", "");
  EXPECT_EQ(chain.requests, 4);
  EXPECT_DOUBLE_EQ(chain.speedup, 2) << "16 tokens in 8 seconds, plain in 16";
  EXPECT_TRUE(chain.spread.has_value());
  EXPECT_DOUBLE_EQ(chain.tau, 2);
  EXPECT_DOUBLE_EQ(chain.nodes, 3);
  EXPECT_DOUBLE_EQ(chain.acceptance, 1.0 / 3);
  EXPECT_EQ(chain.peak_memory, 2000);
  EXPECT_NEAR(chain.times.ttft, 0.5, 1e-12);
  EXPECT_NEAR(chain.times.tpot, (0.25 + 0.125) / 2, 1e-12);
  EXPECT_NEAR(chain.times.cycle.verify, 0.01, 1e-12);
  EXPECT_THAT(chain.lengths, ElementsAre(Pair(1, 2), Pair(2, 4), Pair(3, 2)));
  EXPECT_NEAR(chain.expected_length.pearson, 1, 1e-9);
  EXPECT_EQ(chain.expected_length.cycles, 8);
  EXPECT_FALSE(Of(all, "ar", "").spread.has_value());
  EXPECT_EQ(Of(all, "ar", "").expected_length.cycles, 0);
}

TEST(SuiteFiguresTest, DepthsHaveDenominators) {
  const auto all = ComputeSuiteFigures({Measured(1, 1)}, {{"a", "math"}, {"b", "math"}});
  ASSERT_EQ(all.size(), 2u) << "one dataset needs no rows of its own";
  const auto& depths = Of(all, "chain", "").depths;
  ASSERT_EQ(depths.size(), 3u);
  EXPECT_EQ(depths[0].offered, 4);
  EXPECT_EQ(depths[0].accepted, 3) << "committed lengths 3, 1, 2, 2";
  EXPECT_EQ(depths[1].accepted, 1);
  EXPECT_EQ(depths[2].accepted, 0);
  EXPECT_EQ(depths[2].cycles, 4);
}

TEST(SuiteFiguresTest, DatasetsHaveTheirOwnFigures) {
  const auto all = ComputeSuiteFigures({Measured(1, 1)}, {{"a", "math"}, {"b", "code"}});
  EXPECT_EQ(Of(all, "chain", "math").requests, 1);
  EXPECT_THAT(Of(all, "chain", "code").lengths, ElementsAre(Pair(2, 2)));
}

TEST(SuiteFiguresTest, UnderLoadTheSpeedupIsThatOfTheSystem) {
  LevelResults level;
  level.level.concurrency = 2;
  const auto three = [](double step) {
    LoadRun run;
    for (int i = 0; i < 3; ++i) {
      PromptMeasurement request = Plain(std::string(1, static_cast<char>('a' + i)), 4, 4 * step);
      request.arrived = i < 2 ? 0 : 4 * step;
      for (int t = 0; t < 4; ++t) request.deltas[t].at = request.arrived + step * (t + 1);
      request.ended = request.arrived + 4 * step;
      run.requests.push_back(request);
    }
    return run;
  };
  level.arms = {{"ar", {three(0.2)}}, {"fixed:4", {three(0.1)}}};
  const auto all =
      ComputeSuiteFigures({{0, 1, 0, {level}, {}}}, {{"a", "x"}, {"b", "y"}, {"c", "y"}});
  ASSERT_EQ(all.size(), 2u) << "no figures of datasets under load";
  EXPECT_NEAR(all[1].speedup, 2, 1e-9);
  EXPECT_GT(all[1].system_tokens_per_second, all[0].system_tokens_per_second);
  EXPECT_FALSE(all[1].spread.has_value());
}

}  // namespace
}  // namespace bastion
