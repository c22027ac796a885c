// Runs arms in process on a simulated device, whose calls take virtual time.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fake_stages.h"
#include "tests/support/simulated_device.h"
#include "tools/bench/load_comparison.h"

namespace bastion {
namespace {

using ::bastion::testing::DeviceCurve;
using ::bastion::testing::DrawnTexts;
using ::bastion::testing::FakeDrafter;
using ::bastion::testing::FakeVerifier;
using ::bastion::testing::Ladder;
using ::bastion::testing::SimulatedDevice;
using ::bastion::testing::SimulatedDrafts;
using ::bastion::testing::ToyText;
using ::testing::HasSubstr;

const std::vector<BenchPrompt> kPrompts = {{"a", {1, 2, 3}}, {"b", {4, 5}}, {"c", {6}}, {"d", {7}}};
// A prompt of one token is the first root, so nothing is prefilled.
const std::vector<BenchPrompt> kRoots = {{"a", {1}}, {"b", {4}}, {"c", {6}}, {"d", {7}}};

// All tokens of a run, divided by its time.
double TokensPerSecond(const LoadRun& run) {
  size_t tokens = 0;
  for (const PromptMeasurement& request : run.requests) tokens += request.output.size();
  return static_cast<double>(tokens) / run.seconds();
}

// The longest time between two deltas of a request.
double LongestGap(const LoadRun& run) {
  double longest = 0;
  for (const PromptMeasurement& request : run.requests) {
    for (size_t i = 1; i < request.deltas.size(); ++i) {
      longest = std::max(longest, request.deltas[i].at - request.deltas[i - 1].at);
    }
  }
  return longest;
}

// A verify takes 2 ms, whatever its size.
class LocalArmTest : public ::testing::Test {
 protected:
  LocalArmTest() {
    constexpr uint64_t kManySessions = 1000;  // All arms of the process count sessions together.
    for (uint64_t session = 1; session < kManySessions; ++session) {
      texts_.SetDrafts(session, SimulatedDrafts::Calibrated(Ladder(4, 4, 0.5)));
    }
  }

  std::unique_ptr<Arm> Make(const std::string& policy) {
    const ArmStages stages = {&device_.verifier(), &device_.drafter(), nullptr, &device_.clock(),
                              [this](absl::Duration step) { device_.Advance(step); }};
    return *MakeLocalArm(policy, stages, device_.curve.Profile(), {});
  }

  DrawnTexts texts_;
  SimulatedDevice device_{{[](double) { return 2; }, [](double) { return 1; }, /*overhead=*/0},
                          &texts_};
};

TEST_F(LocalArmTest, AClosedLoopSharesEachCycleAmongItsRequests) {
  const BenchSettings settings = {{}, /*max_new_tokens=*/10};
  const auto plans = PlanLoads({.concurrency = {1, 4}, .repeat = 2}, kRoots, settings);
  const auto one = Make("ar")->Run((*plans)[0], settings);
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_NEAR(TokensPerSecond(*one), 500, 1);
  EXPECT_NEAR(LongestGap(*one), 0.002, 1e-9);
  const auto four = Make("ar")->Run((*plans)[1], settings);
  ASSERT_TRUE(four.ok()) << four.status();
  EXPECT_NEAR(TokensPerSecond(*four), 2000, 1) << "four requests share a cycle of 2 ms";
  EXPECT_EQ(four->requests.size(), 8u);
  for (const PromptMeasurement& request : four->requests) {
    EXPECT_NEAR(static_cast<double>(request.output.size()) / request.seconds, 500, 1)
        << "a stream is as fast as alone";
  }
}

TEST_F(LocalArmTest, AnIdleArmWaitsForTheNextArrival) {
  const std::vector<TracedArrival> arrivals = {{0, kRoots[0], 3}, {5, kRoots[1], 2}};
  const BenchSettings settings;
  const LoadPlan plan = PlanArrivals({}, arrivals, settings);
  const auto run = Make("ar")->Run(plan, settings);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->requests[0].output.size(), 3u);
  EXPECT_NEAR(run->requests[0].ended, 0.006, 1e-6);
  EXPECT_NEAR(run->requests[1].deltas[0].at, 5.002, 1e-6);
  EXPECT_NEAR(run->seconds(), 5.004, 1e-6);
}

TEST_F(LocalArmTest, ArmsAlternateAndEachRoundHasEveryRequest) {
  const BenchSettings settings = {{}, /*max_new_tokens=*/6};
  const auto plans = PlanLoads({.concurrency = {1, 2}}, kRoots, settings);
  std::vector<std::string> made;
  const auto make = [&](const std::string& policy) -> absl::StatusOr<std::unique_ptr<Arm>> {
    made.push_back(policy);
    return Make(policy);
  };
  const auto warm = CompareLoads(*plans, {{"ar", "fixed:2"}, /*rounds=*/3}, settings, make);
  ASSERT_TRUE(warm.ok()) << warm.status();
  EXPECT_EQ(made.size(), 4u) << "one arm per level and policy";
  ASSERT_EQ(warm->size(), 2u);
  for (const LevelResults& level : *warm) {
    for (const ArmResults& arm : level.arms) {
      ASSERT_EQ(arm.rounds.size(), 3u);
      for (const LoadRun& run : arm.rounds) {
        EXPECT_EQ(run.requests.size(), kRoots.size());
        EXPECT_GT(run.seconds(), 0);
      }
    }
  }
  made.clear();
  ASSERT_TRUE(CompareLoads(*plans, {{"ar"}, /*rounds=*/3, /*cold=*/true}, settings, make).ok());
  EXPECT_EQ(made.size(), 6u) << "one arm per level and round";
}

TEST_F(LocalArmTest, WarmUpRequestsDoNotCount) {
  const BenchSettings settings = {{}, /*max_new_tokens=*/6};
  const auto plans = PlanLoads({.concurrency = {1}}, kRoots, settings);
  int arms = 0;
  const auto make = [&](const std::string& policy) -> absl::StatusOr<std::unique_ptr<Arm>> {
    ++arms;
    return Make(policy);
  };
  const absl::Duration began = device_.clock().Now();
  ASSERT_TRUE(CompareLoads(*plans, {.policies = {"ar"}}, settings, make).ok());
  const absl::Duration without = device_.clock().Now() - began;
  ComparisonOptions options = {.policies = {"ar"}};
  options.warmup = 2;
  const auto warm = CompareLoads(*plans, options, settings, make);
  ASSERT_TRUE(warm.ok()) << warm.status();
  const absl::Duration with = device_.clock().Now() - began - without;
  EXPECT_EQ((*warm)[0].arms[0].rounds[0].requests.size(), kRoots.size());
  EXPECT_NEAR(absl::FDivDuration(with, without), 1.5, 1e-6) << "six requests instead of four";
  EXPECT_EQ(arms, 2);
}

TEST_F(LocalArmTest, TreesAreCountedByDepthIfTheyAreKept) {
  BenchSettings settings = {{}, /*max_new_tokens=*/6};
  const auto plans = PlanLoads({.concurrency = {1}}, kRoots, settings);
  const auto bare = Make("chain:3")->Run((*plans)[0], settings);
  ASSERT_TRUE(bare.ok()) << bare.status();
  EXPECT_TRUE(bare->requests[0].cycles[0].offered.empty());
  settings.keeps_trees = true;
  const auto kept = Make("chain:3")->Run((*plans)[0], settings);
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(kept->requests[0].cycles[0].offered, (std::vector<int>{1, 1, 1}));
  EXPECT_EQ(kept->requests[0].cycles[0].accepted + 1, kept->requests[0].cycles[0].committed_length);
}

TEST(LocalArmTextTest, TextsDoNotDependOnTheLoad) {
  FakeVerifier verifier;
  FakeDrafter drafter(&verifier);
  const BenchSettings settings = {{}, /*max_new_tokens=*/12};
  const auto plans = PlanLoads({.concurrency = {1, 3}}, kPrompts, settings);
  auto arm = MakeLocalArm("fixed:4", {&verifier, &drafter}, DeviceCurve::Demo().Profile(), {});
  ASSERT_TRUE(arm.ok()) << arm.status();
  for (const LoadPlan& plan : *plans) {
    const auto run = (*arm)->Run(plan, settings);
    ASSERT_TRUE(run.ok()) << run.status();
    for (size_t i = 0; i < kPrompts.size(); ++i) {
      EXPECT_EQ(run->requests[i].id, kPrompts[i].id);
      EXPECT_EQ(run->requests[i].output, ToyText(kPrompts[i].tokens, {}, 12));
      int tokens = 0;
      for (const Delta& delta : run->requests[i].deltas) tokens += delta.tokens;
      EXPECT_EQ(tokens, 12);
    }
  }
  EXPECT_EQ(verifier.live_sequences(), 0);
}

// Six requests need 5 pages each. They share one page.
TEST(LocalArmTextTest, AFullCachePreemptsRequestsAndChangesNoText) {
  FakeVerifier verifier;
  verifier.kv_tokens = 9 * testing::kToyPage;
  FakeDrafter drafter(&verifier);
  std::vector<BenchPrompt> prompts;
  for (TokenId i = 0; i < 6; ++i) {
    prompts.push_back({absl::StrCat(i), std::vector<TokenId>(20, 1)});
    prompts.back().tokens.back() = i;
  }
  const BenchSettings settings = {{}, /*max_new_tokens=*/60};
  const LoadPlan plan = PlanLoads({.concurrency = {6}}, prompts, settings)->front();
  for (const char* policy : {"ar", "fixed:16"}) {
    auto arm = MakeLocalArm(policy, {&verifier, &drafter}, DeviceCurve::Demo().Profile(), {});
    const auto run = (*arm)->Run(plan, settings);
    ASSERT_TRUE(run.ok()) << run.status();
    for (size_t i = 0; i < prompts.size(); ++i) {
      EXPECT_EQ(run->requests[i].output, ToyText(prompts[i].tokens, {}, 60));
    }
  }
  EXPECT_EQ(verifier.live_sequences(), 0);
}

TEST(LocalArmTextTest, AFailureNamesThePolicyAndThePrompt) {
  FakeVerifier verifier;
  FakeDrafter drafter(&verifier);
  const auto arm = MakeLocalArm("ar", {&verifier, &drafter}, DeviceCurve::Demo().Profile(), {});
  const std::vector<BenchPrompt> prompts = {{"long", {1, 2, 3}}};
  const LoadPlan plan = PlanLoads({.concurrency = {1}}, prompts, {})->front();
  verifier.kv_tokens = 0;
  EXPECT_THAT(std::string((*arm)->Run(plan, {}).status().message()),
              HasSubstr("ar, prompt long: "));
  verifier.call_error = absl::UnavailableError("the verifier is gone");
  EXPECT_EQ((*arm)->Run(plan, {}).status().message(), "ar: the verifier is gone");
}

}  // namespace
}  // namespace bastion
