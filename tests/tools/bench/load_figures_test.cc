// Figures of hand-made loads.
#include "tools/bench/load_figures.h"

#include <limits>
#include <numeric>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();
constexpr LatencyTargets kNoTargets = {kNone, kNone};

// A request whose decoding takes the time from its first delta to its end.
PromptMeasurement Request(double arrived, const std::vector<Delta>& deltas) {
  PromptMeasurement request;
  request.id = "p";
  request.arrived = arrived;
  request.deltas = deltas;
  request.ended = deltas.back().at;
  request.seconds = request.ended - deltas.front().at;
  for (const Delta& delta : deltas) request.output.resize(request.output.size() + delta.tokens);
  return request;
}

// Concurrency 2, three requests. The first two have their first tokens at 1 and 2 s; the third one
// replaces the first at 4 s. The second ends at 6 s and is not replaced.
LoadRun ClosedRun() {
  return {{Request(0, {{1, 1}, {2, 1}, {4, 2}}), Request(0, {{2, 1}, {3, 1}, {6, 3}}),
           Request(4, {{5, 1}, {6, 2}, {9, 4}})}};
}

TEST(QuantileTest, IsTheNearestRank) {
  std::vector<double> values(100);
  std::iota(values.rbegin(), values.rend(), 1);
  EXPECT_EQ(Quantile(values, 0.5), 50);
  EXPECT_EQ(Quantile(values, 0.99), 99);
  EXPECT_EQ(Quantile(values, 1), 100);
  EXPECT_EQ(Quantile({3, 1, 2}, 0.5), 2);
  EXPECT_EQ(Quantile({3, 1, 2}, 0.9), 3);
  EXPECT_EQ(Quantile({7}, 0.01), 7);
}

TEST(WindowTest, AClosedLoopCountsFromTheLastFirstTokenToTheFirstEndWithoutReplacement) {
  const LoadWindow window = WindowOf(ClosedRun(), {.concurrency = 2});
  EXPECT_EQ(window.begin, 2);
  EXPECT_EQ(window.end, 6);
}

TEST(WindowTest, AnOpenLoopCountsFromTheFirstArrivalToTheLastEnd) {
  const LoadWindow window = WindowOf(ClosedRun(), {.rate = 1});
  EXPECT_EQ(window.begin, 0);
  EXPECT_EQ(window.end, 9);
}

TEST(WindowTest, ALoopThatWasNeverFullHasNone) {
  EXPECT_EQ(WindowOf(ClosedRun(), {.concurrency = 4}).seconds(), 0);
  EXPECT_EQ(WindowOf({}, {.concurrency = 1}).seconds(), 0);
  const LoadFigures figures = ComputeLoadFigures({ClosedRun()}, {.concurrency = 4}, kNoTargets);
  EXPECT_EQ(figures.tokens_per_second, 0);
  EXPECT_FALSE(figures.gap.has_value());
}

TEST(LoadFiguresTest, ThroughputExcludesWarmUpAndDrain) {
  const LoadFigures figures = ComputeLoadFigures({ClosedRun()}, {.concurrency = 2}, kNoTargets);
  // After 2 s and until 6 s: 2 tokens of the first request, 4 of the second, 3 of the third.
  EXPECT_EQ(figures.window_seconds, 4);
  EXPECT_DOUBLE_EQ(figures.tokens_per_second, 9.0 / 4);
  EXPECT_DOUBLE_EQ(figures.window_share, 9.0 / 16);
  EXPECT_DOUBLE_EQ(figures.all_tokens_per_second, 16.0 / 9);
  EXPECT_EQ(figures.requests, 3);
}

TEST(LoadFiguresTest, LatenciesOfAClosedLoopCountInTheWindow) {
  const LoadFigures figures = ComputeLoadFigures({ClosedRun()}, {.concurrency = 2}, kNoTargets);
  // The gaps 2 (two tokens), 1 (one), 3 (three) and 1 (two tokens).
  EXPECT_EQ(figures.gap->p50, 1);
  EXPECT_EQ(figures.gap->p99, 3);
  EXPECT_EQ(figures.token->p50, 1);
  EXPECT_EQ(figures.token->p90, 1) << "a gap is divided among the tokens that it brings";
  EXPECT_EQ(figures.ttft->p50, 1) << "only the third request has its first token in the window";
  EXPECT_EQ(figures.ttft->p99, 1);
}

TEST(LoadFiguresTest, EverythingInAnOpenLoopCounts) {
  const LoadFigures figures = ComputeLoadFigures({ClosedRun()}, {.rate = 1}, kNoTargets);
  EXPECT_EQ(figures.ttft->p50, 1);
  EXPECT_EQ(figures.ttft->p99, 2);
  EXPECT_EQ(figures.gap->p99, 3);
  EXPECT_DOUBLE_EQ(figures.tokens_per_second, 16.0 / 9);
  EXPECT_EQ(figures.window_share, 1);
}

TEST(LoadFiguresTest, GoodputCountsRequestsThatMeetBothTargets) {
  const auto goodput = [](const LatencyTargets& targets) {
    return ComputeLoadFigures({ClosedRun()}, {.concurrency = 2}, targets).goodput;
  };
  EXPECT_DOUBLE_EQ(goodput(kNoTargets), 9.0 / 4);
  EXPECT_DOUBLE_EQ(goodput({2, kNone}), 5.0 / 4) << "the second request has a gap of 3 s";
  EXPECT_DOUBLE_EQ(goodput({1, kNone}), 3.0 / 4);
  EXPECT_DOUBLE_EQ(goodput({2, 0.5}), 2.0 / 4) << "the third request waits 1 s for its first token";
  EXPECT_EQ(goodput({0.5, kNone}), 0);
}

TEST(LoadFiguresTest, FairnessIsJainsIndexOfTheRates) {
  LoadRun equal = {{Request(0, {{1, 1}, {2, 3}}), Request(1, {{2, 2}, {3, 2}})}};
  EXPECT_DOUBLE_EQ(ComputeLoadFigures({equal}, {.rate = 1}, kNoTargets).fairness, 1);
  // Rates 1 and 3: (1 + 3)² / (2·(1 + 9)).
  LoadRun unequal = {{Request(0, {{1, 1}, {2, 1}}), Request(0, {{1, 1}, {2, 5}})}};
  EXPECT_DOUBLE_EQ(ComputeLoadFigures({unequal}, {.rate = 1}, kNoTargets).fairness, 0.8);
}

TEST(LoadFiguresTest, RoundsAreAddedUp) {
  const LoadRun run = ClosedRun();
  const LoadFigures figures = ComputeLoadFigures({run, run}, {.concurrency = 2}, kNoTargets);
  EXPECT_EQ(figures.requests, 6);
  EXPECT_EQ(figures.window_seconds, 8);
  EXPECT_DOUBLE_EQ(figures.tokens_per_second, 9.0 / 4);
}

TEST(LoadRunTest, AnAppendedRunBeginsWhenTheFirstOneEnded) {
  LoadRun run = {{Request(0, {{1, 1}, {2, 1}})}};
  Append({{Request(0, {{1.5, 1}, {3, 1}})}, 2}, &run);
  ASSERT_EQ(run.requests.size(), 2u);
  EXPECT_EQ(run.requests[1].arrived, 2);
  EXPECT_EQ(run.requests[1].deltas[0].at, 3.5);
  EXPECT_EQ(run.seconds(), 5);
  EXPECT_EQ(run.rejected, 2);
  // At concurrency 1, only the wait for the very first token is outside the window.
  EXPECT_EQ(WindowOf(run, {.concurrency = 1}).begin, 1);
  EXPECT_EQ(WindowOf(run, {.concurrency = 1}).end, 5);
}

TEST(RatioTest, IsTheMedianOverTheRoundsWithItsRange) {
  // One token per second by `ar`; 2, 3 and 5 by the other policy.
  const auto run = [](int tokens) { return LoadRun{{Request(0, {{1, 1}, {2, tokens}})}}; };
  LevelResults level = {{.concurrency = 1},
                        {{"ar", {run(1), run(1), run(1)}}, {"x", {run(5), run(2), run(3)}}}};
  const auto ratio = RatioOf(level.arms[1], level);
  EXPECT_DOUBLE_EQ(ratio->median, 3);
  EXPECT_DOUBLE_EQ(ratio->low, 2);
  EXPECT_DOUBLE_EQ(ratio->high, 5);
  level.arms.erase(level.arms.begin());
  EXPECT_FALSE(RatioOf(level.arms[0], level).has_value());
}

}  // namespace
}  // namespace bastion
