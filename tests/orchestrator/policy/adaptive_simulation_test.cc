// Compares the adaptive policy with plain decoding and with fixed budgets, in simulated time.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/orchestrator/policy/simulation.h"
#include "tests/support/transition_tables.h"

namespace bastion {
namespace {

using ::bastion::testing::Ladder;
using ::bastion::testing::RandomTable;
using ::bastion::testing::SimulatedDrafter;
using ::bastion::testing::SimulatedRun;
using ::bastion::testing::Simulation;

// Verify times in milliseconds by rows. Stairs: a CPU with vector widths and tiles. Linear: a
// smooth cost. Flat: a GPU far from its limit.
double Stairs(int rows) {
  double milliseconds = 1.0 + 0.004 * rows;
  if (rows > 4) milliseconds += 0.25;
  if (rows > 16) milliseconds += 0.35;
  if (rows > 32) milliseconds += 0.7;
  if (rows > 64) milliseconds += 1.6;
  return milliseconds;
}
double Linear(int rows) { return 1.0 + 0.03 * rows; }
double Flat(int rows) { return 1.0 + 0.002 * rows; }

// Tokens per millisecond.
double PaceOf(const std::string& policy, double (*verify)(int), const SimulatedDrafter& drafter,
              int cycles = 2000) {
  Simulation simulation(verify, /*noise=*/0.05);
  TreeGrower grower = simulation.NewGrower(policy);
  return simulation.Run(grower, drafter, cycles).pace();
}

// The pace of the best of plain decoding, the chain and several fixed budgets.
double OraclePace(double (*verify)(int), const SimulatedDrafter& drafter) {
  double best = std::max(Simulation(verify).PlainPace(), PaceOf("chain", verify, drafter));
  for (const int nodes : {1, 4, 8, 12, 15, 31, 63, 96, 127}) {
    best = std::max(best, PaceOf("fixed:" + std::to_string(nodes), verify, drafter));
  }
  return best;
}

struct Setting {
  const char* name;
  double (*verify)(int);
  SimulatedDrafter drafter;
};

std::vector<Setting> Settings() {
  std::vector<Setting> settings;
  const std::pair<const char*, double (*)(int)> machines[] = {
      {"stairs", Stairs}, {"linear", Linear}, {"flat", Flat}};
  for (const auto& [name, verify] : machines) {
    settings.push_back({name, verify, SimulatedDrafter::Calibrated(Ladder(8, 16, 0.25))});
    settings.push_back({name, verify, SimulatedDrafter::Calibrated(Ladder(8, 16, 0.5))});
    settings.push_back({name, verify, SimulatedDrafter::Calibrated(Ladder(8, 16, 0.8))});
    // Overconfident, underconfident, and less accurate off the spine.
    settings.push_back({name, verify, {Ladder(8, 16, 0.9), Ladder(8, 16, 0.5)}});
    settings.push_back({name, verify, {Ladder(8, 16, 0.4), Ladder(8, 16, 0.8)}});
    settings.push_back({name, verify, {Ladder(8, 16, 0.6), Ladder(8, 16, 0.6), 0.3}});
  }
  return settings;
}

class AdaptiveOverSettings : public ::testing::TestWithParam<int> {};

TEST_P(AdaptiveOverSettings, IsAtMostThreePercentSlowerThanTheBestOtherPolicy) {
  const Setting setting = Settings()[GetParam()];
  const double oracle = OraclePace(setting.verify, setting.drafter);
  EXPECT_GE(PaceOf("adaptive", setting.verify, setting.drafter), 0.97 * oracle) << setting.name;
}
INSTANTIATE_TEST_SUITE_P(All, AdaptiveOverSettings,
                         ::testing::Range(0, static_cast<int>(Settings().size())));

TEST(AdaptiveSimulationTest, AUselessDrafterCostsAtMostTwoPercent) {
  for (const double stated_top : {0.05, 0.5, 0.95}) {
    for (const double draft_ms : {0.2, 1.0, 5.0}) {
      SimulatedDrafter useless = SimulatedDrafter::Useless(stated_top);
      useless.milliseconds = draft_ms;
      Simulation simulation(Stairs, 0.05);
      // Twenty consecutive requests of 128 cycles.
      double tokens = 0;
      double milliseconds = 0;
      for (int request = 0; request < 20; ++request) {
        TreeGrower grower = simulation.NewGrower("adaptive");
        const SimulatedRun run = simulation.Run(grower, useless, 128);
        tokens += run.tokens;
        milliseconds += run.milliseconds;
      }
      EXPECT_GE(tokens / milliseconds, 0.98 * simulation.PlainPace())
          << stated_top << " " << draft_ms;
    }
  }
}

// A random table over a vocabulary that contains all candidates of the simulation.
class RandomPrior : public ::testing::Test {
 protected:
  // Tokens per millisecond, over ten requests of 128 cycles.
  double PaceOverRequests(const std::string& policy, const SimulatedDrafter& drafter) {
    Simulation simulation(Stairs, 0.05, {.vocabulary = gains_.vocabulary(), .table = &gains_});
    plain_pace_ = simulation.PlainPace();
    double tokens = 0;
    double milliseconds = 0;
    for (int request = 0; request < 10; ++request) {
      TreeGrower grower = simulation.NewGrower(policy);
      const SimulatedRun run = simulation.Run(grower, drafter, 128);
      tokens += run.tokens;
      milliseconds += run.milliseconds;
    }
    return tokens / milliseconds;
  }

  const TransitionGains gains_{RandomTable(2000, 8, 1)};
  double plain_pace_ = 0;
};

TEST_F(RandomPrior, CostsAGoodDrafterAtMostFourPercent) {
  const SimulatedDrafter good = SimulatedDrafter::Calibrated(Ladder(8, 16, 0.7));
  const double without = PaceOverRequests("adaptive", good);
  EXPECT_GE(PaceOverRequests("adaptive+prior:table", good), 0.96 * without);
}

TEST_F(RandomPrior, CostsADrafterThatMissesSomeTokensAtMostFourPercent) {
  for (const double coverage : {0.85, 0.7}) {
    SimulatedDrafter drafter = SimulatedDrafter::Calibrated(Ladder(8, 16, 0.7));
    for (std::vector<double>& position : drafter.truth) {
      for (double& probability : position) probability *= coverage;
    }
    const double without = PaceOverRequests("adaptive", drafter);
    EXPECT_GE(PaceOverRequests("adaptive+prior:table", drafter), 0.96 * without) << coverage;
  }
}

TEST_F(RandomPrior, WithAUselessDrafterCostsAtMostTwoPercent) {
  for (const double stated_top : {0.05, 0.5, 0.95}) {
    SimulatedDrafter useless = SimulatedDrafter::Useless(stated_top);
    useless.milliseconds = 1;
    const double pace = PaceOverRequests("adaptive+prior:table", useless);
    EXPECT_GE(pace, 0.98 * plain_pace_) << stated_top;
  }
}

TEST(AdaptiveSimulationTest, AUselessDrafterIsDroppedWithinTheFirstRequest) {
  Simulation simulation(Stairs);
  TreeGrower grower = simulation.NewGrower("adaptive");
  const SimulatedRun first = simulation.Run(grower, SimulatedDrafter::Useless(0.95), 128);
  EXPECT_LT(first.drafts, 35);
  // The loss in plain steps: the start level, the losses of the trials, and a little more.
  EXPECT_LT(first.milliseconds * simulation.PlainPace() - first.tokens, 16);
}

TEST(AdaptiveSimulationTest, TreesOfADrafterThatIsNeverRightShrinkQuickly) {
  Simulation simulation(Linear);
  TreeGrower grower = simulation.NewGrower("adaptive");
  SimulatedDrafter cheap = SimulatedDrafter::Useless(0.95);
  cheap.milliseconds = 0.001;  // The gate has no reason to close.
  const SimulatedRun first = simulation.Run(grower, cheap, 10);
  simulation.Run(grower, cheap, 50);
  const SimulatedRun later = simulation.Run(grower, cheap, 50);
  EXPECT_LT(later.nodes / later.cycles, 0.5);
  EXPECT_LT(later.nodes, first.nodes);
}

TEST(AdaptiveSimulationTest, AGoodDrafterIsUsedFromTheFirstCycleOn) {
  Simulation simulation(Stairs, 0.05);
  for (int request = 0; request < 10; ++request) {
    TreeGrower grower = simulation.NewGrower("adaptive");
    const SimulatedRun run =
        simulation.Run(grower, SimulatedDrafter::Calibrated(Ladder(8, 16, 0.7)), 40);
    EXPECT_GE(run.drafts, 38);
  }
}

TEST(AdaptiveSimulationTest, ADrafterIsUsedAgainWhenItImprovesAndDroppedWhenItFails) {
  Simulation simulation(Stairs, 0.05);
  TreeGrower grower = simulation.NewGrower("adaptive");
  const SimulatedDrafter good = SimulatedDrafter::Calibrated(Ladder(8, 16, 0.7));
  const SimulatedDrafter bad = SimulatedDrafter::Useless(0.9);
  const double good_pace = PaceOf("adaptive", Stairs, good);
  for (int round = 0; round < 3; ++round) {
    simulation.Run(grower, bad, 300);
    EXPECT_GE(simulation.Run(grower, bad, 1000).pace(), 0.98 * simulation.PlainPace());
    simulation.Run(grower, good, 400);  // Time to notice the improvement.
    EXPECT_GE(simulation.Run(grower, good, 1000).pace(), 0.95 * good_pace);
  }
}

TEST(AdaptiveSimulationTest, AdaptsToAMachineThatSlowsDown) {
  Simulation simulation(Linear, 0.05);
  TreeGrower grower = simulation.NewGrower("adaptive");
  const SimulatedDrafter drafter = SimulatedDrafter::Calibrated(Ladder(8, 16, 0.6));
  simulation.Run(grower, drafter, 500);
  // Rows become expensive, as if another process took the second core.
  const auto crowded = [](int rows) { return 1.2 + 0.12 * rows; };
  simulation.SetVerify(crowded);
  simulation.Run(grower, drafter, 500);
  const double pace = simulation.Run(grower, drafter, 2000).pace();

  Simulation fresh(crowded, 0.05);
  TreeGrower calibrated = fresh.NewGrower("adaptive");
  EXPECT_GE(pace, 0.93 * fresh.Run(calibrated, drafter, 2000).pace());
  EXPECT_GE(pace, 1.02 * fresh.PlainPace());
}

TEST(AdaptiveSimulationTest, AGoodButSlowDrafterIsNotUsed) {
  SimulatedDrafter slow = SimulatedDrafter::Calibrated(Ladder(8, 16, 0.6));
  slow.milliseconds = 20;
  Simulation simulation(Stairs, 0.05);
  TreeGrower grower = simulation.NewGrower("adaptive");
  simulation.Run(grower, slow, 300);
  const SimulatedRun run = simulation.Run(grower, slow, 3000);
  EXPECT_GE(run.pace(), 0.98 * simulation.PlainPace());
  EXPECT_LT(run.drafts, 30);
}

}  // namespace
}  // namespace bastion
