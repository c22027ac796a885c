// Compares the adaptive policy with plain decoding and with named policies at many levels of load,
// in simulated time.
#include <algorithm>
#include <array>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/orchestrator/cycle/simulation.h"
#include "tests/support/transition_tables.h"

namespace bastion {
namespace {

using ::bastion::testing::CyclesFor;
using ::bastion::testing::DeviceCurve;
using ::bastion::testing::DrawnLoad;
using ::bastion::testing::Ladder;
using ::bastion::testing::PaceOf;
using ::bastion::testing::SimulatedDrafts;
using ::bastion::testing::SimulatedRun;
using ::bastion::testing::Simulation;

DeviceCurve Curve(const std::string& name) {
  if (name == "demo") return DeviceCurve::Demo();
  return name == "inflated" ? DeviceCurve::Inflated() : DeviceCurve::Gpu();
}

SimulatedDrafts Good(int /*request*/) { return SimulatedDrafts::Calibrated(Ladder(8, 16, 0.7)); }
SimulatedDrafts Useless(int /*request*/) { return SimulatedDrafts::Useless(0.6); }
// Every text has drafts of another quality, and the drafter is overconfident off the spine.
SimulatedDrafts Mixed(int request) {
  const double top[] = {0.35, 0.5, 0.65, 0.8};
  SimulatedDrafts drafts = SimulatedDrafts::Calibrated(Ladder(8, 16, top[request % 4]));
  drafts.off_spine = 0.5;
  return drafts;
}
SimulatedDrafts HalfUseless(int request) {
  return request % 2 == 0 ? Good(request) : Useless(request);
}
// States less than the truth on the spine, and the wrong order of candidates.
SimulatedDrafts Misjudged(int /*request*/) { return {Ladder(8, 16, 0.4), Ladder(8, 16, 0.75)}; }

struct Load {
  const char* curve;
  int concurrency;
  const char* drafts;

  friend std::ostream& operator<<(std::ostream& out, const Load& load) {
    return out << load.curve << "_" << load.concurrency << "_" << load.drafts;
  }
};

DrawnLoad::DraftsOf DraftsOf(const std::string& name) {
  if (name == "good") return Good;
  if (name == "mixed") return Mixed;
  if (name == "half_useless") return HalfUseless;
  return name == "misjudged" ? Misjudged : Useless;
}

// Sanitizers slow the simulation down, so they get fewer loads. Other curves run the same code.
std::vector<Load> Loads() {
  const auto curves = BASTION_SANITIZED ? std::vector<const char*>{"demo"}
                                        : std::vector<const char*>{"demo", "inflated", "gpu"};
  const std::vector<int> concurrencies =
      BASTION_SANITIZED ? std::vector{2, 32} : std::vector{1, 2, 4, 16, 32};
  std::vector<Load> loads;
  for (const char* curve : curves) {
    for (const int concurrency : concurrencies) {
      for (const char* drafts : {"good", "mixed", "half_useless", "misjudged", "useless"}) {
        loads.push_back({curve, concurrency, drafts});
      }
    }
  }
  return loads;
}

class ForestSimulationTest : public ::testing::TestWithParam<Load> {};

TEST_P(ForestSimulationTest, AdaptiveIsAsFastAsTheBestNamedPolicyAndPlainDecoding) {
  const Load& load = GetParam();
  const DeviceCurve curve = Curve(load.curve);
  const DrawnLoad::DraftsOf drafts = DraftsOf(load.drafts);
  const double plain = PaceOf("ar", curve, load.concurrency, drafts);
  DrawnLoad drawn(drafts);
  Simulation simulation(curve, load.concurrency, "adaptive", &drawn);
  // What it costs to learn: see ColdStartTest.
  simulation.Run(std::max(300, 10'000 / load.concurrency));
  const double adaptive = simulation.Run(CyclesFor(load.concurrency)).pace();
  double best = plain;
  for (const char* policy : {"chain", "chain:2", "fixed:2", "fixed:4", "fixed:8", "fixed:16"}) {
    best = std::max(best, PaceOf(policy, curve, load.concurrency, drafts));
  }
  std::cout << load << ": best " << best / plain << ", adaptive " << adaptive / plain << "\n";
  EXPECT_GE(adaptive, 0.99 * plain);
  // Near break-even, small errors of the estimates decide between drafting and plain decoding.
  const bool near_break_even = best < 1.05 * plain;
  EXPECT_GE(adaptive, (near_break_even ? 0.96 : 0.98) * best);
}
INSTANTIATE_TEST_SUITE_P(All, ForestSimulationTest, ::testing::ValuesIn(Loads()));

TEST(ColdStartTest, FindingOutThatADrafterIsUselessCostsLittle) {
  for (const char* curve : {"demo", "inflated", "gpu"}) {
    for (const int concurrency : {1, 4, 16}) {
      const double plain = PaceOf("ar", Curve(curve), concurrency, Useless);
      DrawnLoad load(Useless);
      Simulation simulation(Curve(curve), concurrency, "adaptive", &load);
      SimulatedRun start;
      while (start.milliseconds < 5000) {
        const SimulatedRun more = simulation.Run(10);
        start.tokens += more.tokens;
        start.milliseconds += more.milliseconds;
      }
      EXPECT_GE(start.pace(), 0.97 * plain) << curve << " " << concurrency;
    }
  }
}

TEST(ColdStartTest, AGoodDrafterIsUsedFromTheFirstCycleOn) {
  DrawnLoad load(Good);
  Simulation simulation(DeviceCurve::Gpu(), 4, "adaptive", &load);
  EXPECT_GE(simulation.Run(10).drafts, 40);
}

TEST(ChangingLoadTest, ADrafterIsUsedAgainWhenItImprovesAndDroppedWhenItFails) {
  bool useless = true;
  const auto drafts = [&useless](int request) {
    return useless ? Useless(request) : Good(request);
  };
  const DeviceCurve curve = DeviceCurve::Inflated();
  DrawnLoad load(drafts);
  Simulation simulation(curve, 1, "adaptive", &load);
  const double plain = PaceOf("ar", curve, 1, Good);
  const double good = PaceOf("adaptive", curve, 1, Good);
  for (int round = 0; round < 3; ++round) {
    useless = true;
    simulation.Run(1000);
    EXPECT_GE(simulation.Run(1000).pace(), 0.98 * plain);
    useless = false;
    simulation.Run(6000);  // Time to notice the improvement.
    EXPECT_GE(simulation.Run(1000).pace(), 0.95 * good);
  }
}

TEST(ChangingLoadTest, FollowsADeviceThatSlowsDown) {
  DrawnLoad load(Good);
  Simulation simulation(DeviceCurve::Gpu(), 8, "adaptive", &load);
  simulation.Run(500);
  const DeviceCurve fast = DeviceCurve::Gpu();
  simulation.device.curve.verify = [fast](double rows) { return 2 * fast.verify(rows); };
  simulation.Run(50);
  double ratios = 0;  // Predicted by measured time.
  constexpr int kCycles = 20;
  for (int i = 0; i < kCycles; ++i) {
    simulation.Run(1);
    const CycleRecord& cycle = simulation.live()[0].sequence->cycles().back();
    ratios += absl::FDivDuration(cycle.predicted_verify, cycle.stages.verify);
  }
  EXPECT_NEAR(ratios / kCycles, 1, 0.1);
}

// Every second request counts four times, or has a latency target.
class TwoClasses final : public DrawnLoad {
 public:
  explicit TwoClasses(std::optional<absl::Duration> target) : DrawnLoad(Good), target_(target) {}
  DecodeRequest Request(int number) override {
    DecodeRequest request = DrawnLoad::Request(number);
    if (number % 2 == 0) return request;
    request.latency_target = target_;
    if (!target_.has_value()) request.weight = 4;
    return request;
  }

 private:
  const std::optional<absl::Duration> target_;
};

TEST(PriorityTest, RequestsWithMoreWeightGetMoreNodes) {
  TwoClasses load(/*target=*/std::nullopt);
  Simulation simulation(DeviceCurve::Gpu(), 32, "adaptive", &load);
  simulation.Run(100);
  std::array<double, 2> nodes = {0, 0};
  for (int i = 0; i < 100; ++i) {
    simulation.Run(1);
    for (const auto& [sequence, history] : simulation.live()) {
      nodes[sequence->weight() > 1] += sequence->cycles().back().nodes;
    }
  }
  EXPECT_GT(nodes[1], 1.5 * nodes[0]);
}

TEST(LatencyTargetTest, CyclesOfTheWholeBatchStayBelowIt) {
  const DeviceCurve curve = DeviceCurve::Demo();
  const auto longest = [&curve](std::optional<absl::Duration> target) {
    TwoClasses load(target);
    Simulation simulation(curve, 4, "adaptive", &load);
    simulation.Run(100);
    absl::Duration longest;
    for (int i = 0; i < 200; ++i) {
      simulation.Run(1);
      longest = std::max(longest, simulation.live()[0].sequence->cycles().back().stages.total());
    }
    return longest;
  };
  // Speculation takes longer than plain decoding, but not with the target.
  const absl::Duration target = absl::Milliseconds(1.3 * curve.verify(4));
  EXPECT_GT(longest(std::nullopt), target);
  EXPECT_LT(longest(target), target);
}

TEST(FailingDrafterTest, CostsLittleWhetherItFailsFastOrSlowly) {
  for (const double milliseconds : {0.0, 5.0}) {
    DeviceCurve curve = DeviceCurve::Demo();
    curve.draft = [milliseconds](double) { return milliseconds; };
    DrawnLoad load(Good);
    Simulation simulation(curve, 4, "adaptive", &load);
    simulation.device.drafts_fail = true;
    simulation.Run(200);
    EXPECT_GE(simulation.Run(2000).pace(), 0.985 * PaceOf("ar", curve, 4, Good)) << milliseconds;
  }
}

}  // namespace
}  // namespace bastion
