// Runs load generators on a fake clock.
#include "tools/bench/load_generator.h"

#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/manual_clock.h"

namespace bastion {
namespace {

using ::bastion::testing::ManualClock;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<BenchPrompt> kShortPrompts = {{"a", {1}}, {"b", {2}}, {"c", {3}}, {"d", {4}}};

LoadPlan ClosedLoop(LoadOptions options, int concurrency) {
  options.concurrency = {concurrency};
  return PlanLoads(options, kShortPrompts, {})->front();
}

// A server that answers every request in one second of a fake clock, and looks at the generator ten
// times a second.
struct FakeServer {
  ManualClock clock;
  std::vector<std::string> started;      // Ids.
  std::vector<double> arrivals, starts;  // Seconds.
  std::vector<absl::Duration> ends;      // Live requests only.
  std::vector<int> live;                 // After each look.

  void Run(const LoadPlan& plan) {
    LoadGenerator generator(plan);
    for (;; clock.Advance(absl::Milliseconds(100))) {
      const absl::Duration now = clock.Now();
      const auto over = [&](absl::Duration end) { return end <= now; };
      const auto ended = std::count_if(ends.begin(), ends.end(), over);
      ends.erase(std::remove_if(ends.begin(), ends.end(), over), ends.end());
      for (int i = 0; i < ended; ++i) generator.RequestEnded();
      while (const auto request = generator.Next(now)) {
        started.push_back(request->prompt->id);
        arrivals.push_back(absl::ToDoubleSeconds(request->arrival));
        starts.push_back(absl::ToDoubleSeconds(now));
        ends.push_back(now + absl::Seconds(1 + 0.3 * static_cast<double>(starts.size() % 3)));
      }
      live.push_back(generator.live());
      if (generator.Finished(now)) return;
    }
  }
};

TEST(ClosedLoopTest, ExactlyTheGivenNumberIsLiveUntilTheRequestsRunOut) {
  FakeServer server;
  server.Run(ClosedLoop({.repeat = 3}, 3));
  EXPECT_EQ(server.started.size(), 12u);
  const auto drain =
      std::find_if(server.live.begin(), server.live.end(), [](int live) { return live != 3; });
  EXPECT_TRUE(std::is_sorted(drain, server.live.end(), std::greater<>()));
  EXPECT_GT(drain - server.live.begin(), 30);
  EXPECT_EQ(server.live.back(), 0);
  EXPECT_EQ(server.arrivals, server.starts);
}

TEST(ClosedLoopTest, PromptsRepeatInOrder) {
  FakeServer server;
  server.Run(ClosedLoop({.repeat = 2}, 1));
  EXPECT_THAT(server.started, ElementsAre("a", "b", "c", "d", "a", "b", "c", "d"));
}

TEST(ClosedLoopTest, NoRequestStartsAfterTheDuration) {
  FakeServer server;
  server.Run(ClosedLoop({.duration = absl::Seconds(20)}, 2));
  EXPECT_LT(server.starts.back(), 20);
  EXPECT_GT(server.starts.back(), 18);
  EXPECT_GT(server.started.size(), kShortPrompts.size());
}

TEST(ClosedLoopTest, FewerRequestsThanTheConcurrencyAreRefused) {
  const auto plans = PlanLoads({.concurrency = {5}}, kShortPrompts, {});
  EXPECT_TRUE(absl::IsInvalidArgument(plans.status()));
  EXPECT_THAT(std::string(plans.status().message()), HasSubstr("--repeat"));
  EXPECT_TRUE(PlanLoads({.concurrency = {5}, .repeat = 2}, kShortPrompts, {}).ok());
}

TEST(LoadPlanTest, MoreRequestsThanAMillionAreRefused) {
  for (const LoadOptions& options : {LoadOptions{.concurrency = {1}, .repeat = 300'000},
                                     LoadOptions{.rates = {1000}, .duration = absl::Hours(1)}}) {
    const auto plans = PlanLoads(options, kShortPrompts, {});
    EXPECT_TRUE(absl::IsInvalidArgument(plans.status()));
    EXPECT_THAT(std::string(plans.status().message()), HasSubstr("at most 1000000"));
  }
}

TEST(OpenLoopTest, PoissonArrivalsHaveTheRightMeanAndSpread) {
  std::vector<PlannedRequest> requests(20'000);
  SetPoissonArrivals(/*rate=*/4, /*seed=*/1, &requests);
  EXPECT_EQ(requests.front().arrival, absl::ZeroDuration());
  double sum = 0, squares = 0;
  for (size_t i = 1; i < requests.size(); ++i) {
    const double gap = absl::ToDoubleSeconds(requests[i].arrival - requests[i - 1].arrival);
    ASSERT_GE(gap, 0);
    sum += gap;
    squares += gap * gap;
  }
  const double mean = sum / (requests.size() - 1);
  EXPECT_NEAR(mean, 0.25, 0.01);
  // The variance of an exponential distribution is the square of its mean.
  EXPECT_NEAR(squares / (requests.size() - 1) - mean * mean, 0.0625, 0.004);
}

TEST(OpenLoopTest, TheSeedDeterminesTheArrivals) {
  std::vector<PlannedRequest> first(50), second(50), other(50);
  SetPoissonArrivals(4, 1, &first);
  SetPoissonArrivals(4, 1, &second);
  SetPoissonArrivals(4, 2, &other);
  EXPECT_EQ(first[49].arrival, second[49].arrival);
  EXPECT_NE(first[49].arrival, other[49].arrival);
}

TEST(OpenLoopTest, RequestsStartWhenTheyArriveEvenIfOthersAreLive) {
  FakeServer server;
  server.Run(PlanLoads({.rates = {5}, .repeat = 5}, kShortPrompts, {})->front());
  ASSERT_EQ(server.started.size(), 20u);
  EXPECT_GT(*std::max_element(server.live.begin(), server.live.end()), 4);
  for (size_t i = 0; i < server.starts.size(); ++i) {
    EXPECT_GE(server.starts[i], server.arrivals[i]);
    EXPECT_LE(server.starts[i], server.arrivals[i] + 0.11);
  }
}

TEST(OpenLoopTest, RequestsBeyondTheLimitWait) {
  FakeServer server;
  server.Run(PlanLoads({.rates = {5}, .repeat = 5, .max_running = 2}, kShortPrompts, {})->front());
  EXPECT_EQ(server.started.size(), 20u);
  EXPECT_EQ(*std::max_element(server.live.begin(), server.live.end()), 2);
  EXPECT_GT(server.starts.back(), server.arrivals.back() + 1) << "latency counts from the arrival";
}

TEST(OpenLoopTest, TheDurationBoundsTheArrivals) {
  const auto plans = PlanLoads({.rates = {3}, .duration = absl::Seconds(60)}, kShortPrompts,
                               {.max_new_tokens = 7});
  const auto& requests = plans->front().requests;
  EXPECT_NEAR(static_cast<double>(requests.size()), 180, 45);
  EXPECT_LE(requests.back().arrival, absl::Seconds(60));
  EXPECT_EQ(requests.back().max_new_tokens, 7);
}

TEST(OpenLoopTest, ATraceStatesTimesAndLimits) {
  const std::vector<TracedArrival> arrivals = {{0.5, kShortPrompts[2], 9},
                                               {2, kShortPrompts[0], 0}};
  FakeServer server;
  const LoadPlan plan = PlanArrivals({.arrivals = "f"}, arrivals, {.max_new_tokens = 32});
  EXPECT_EQ(plan.requests[0].max_new_tokens, 9);
  EXPECT_EQ(plan.requests[1].max_new_tokens, 32);
  EXPECT_EQ(plan.level.ToString(), "arrivals in f");
  server.Run(plan);
  EXPECT_THAT(server.started, ElementsAre("c", "a"));
  EXPECT_THAT(server.arrivals, ElementsAre(0.5, 2));
}

TEST(LoadGeneratorTest, TheNextArrivalIsKnownInAnOpenLoopOnly) {
  const std::vector<TracedArrival> arrivals = {{0.5, kShortPrompts[0], 0},
                                               {2, kShortPrompts[1], 0}};
  const LoadPlan open = PlanArrivals({.max_running = 1}, arrivals, {});
  LoadGenerator generator(open);
  EXPECT_EQ(generator.NextArrival(), absl::Seconds(0.5));
  ASSERT_TRUE(generator.Next(absl::Seconds(1)).has_value());
  EXPECT_EQ(generator.NextArrival(), absl::InfiniteDuration()) << "it waits for a slot";
  generator.RequestEnded();
  EXPECT_EQ(generator.NextArrival(), absl::Seconds(2));
  const LoadPlan closed = ClosedLoop({}, 1);
  EXPECT_EQ(LoadGenerator(closed).NextArrival(), absl::InfiniteDuration());
}

}  // namespace
}  // namespace bastion
