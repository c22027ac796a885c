#include "orchestrator/policy/draft_gate.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "gtest/gtest.h"
#include "orchestrator/policy/pace.h"

namespace bastion {
namespace {

struct Totals {
  int drafts = 0;
  double tokens = 0;
  double time = 0;  // In plain steps.
};

// Runs `cycles` cycles. A drafted cycle takes `cycle_time` plain steps and commits
// 1 + Poisson(accepted) tokens.
Totals RunCycles(DraftGate& gate, int cycles, double cycle_time, double accepted,
                 uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::poisson_distribution<> poisson(std::max(accepted, 1e-9));
  Totals totals;
  for (int i = 0; i < cycles; ++i) {
    if (gate.open()) {
      const int committed = 1 + (accepted > 0 ? poisson(random) : 0);
      gate.ObserveDrafted(committed, cycle_time, 1.0);
      ++totals.drafts;
      totals.tokens += committed;
      totals.time += cycle_time;
    } else {
      gate.ObservePlain();
      totals.tokens += 1;
      totals.time += 1;
    }
  }
  return totals;
}

TEST(DraftGateTest, EachSavingMovesTheLevel) {
  DraftGate gate;
  EXPECT_TRUE(gate.open());
  gate.ObserveDrafted(/*committed=*/3, /*cycle_time=*/4.0, /*plain_time=*/2.0);
  EXPECT_DOUBLE_EQ(gate.level(), DraftGate::kStartLevel + 1);
  gate.ObserveDrafted(1, 3.0, 2.0);
  EXPECT_DOUBLE_EQ(gate.level(), DraftGate::kStartLevel + 0.5);
}

TEST(DraftGateTest, TrialsSpendAndRefillTheAllowance) {
  DraftGate gate;
  gate.ObserveDrafted(1, 3.0, 1.0);  // Saves −2 steps: level 0, allowance 0.
  ASSERT_FALSE(gate.open());
  gate.ObservePlain();  // Adds 4^0.
  ASSERT_TRUE(gate.open());
  gate.ObserveDrafted(1, 3.0, 1.0);  // A trial that loses 2: level −2, allowance 1 − 2.
  EXPECT_DOUBLE_EQ(gate.level(), -2);
  for (int i = 0; i < 16; ++i) {  // Each step adds 1/16, so 16 steps raise the allowance to 0.
    ASSERT_FALSE(gate.open());
    gate.ObservePlain();
  }
  EXPECT_FALSE(gate.open());
  gate.ObservePlain();
  ASSERT_TRUE(gate.open());
  gate.ObserveDrafted(4, 3.0, 1.0);  // A trial that saves 1 pays for the next trial.
  EXPECT_DOUBLE_EQ(gate.level(), -1);
  EXPECT_TRUE(gate.open());
  gate.ObserveDrafted(4, 2.0, 1.0);
  EXPECT_DOUBLE_EQ(gate.level(), 1);
  gate.ObserveDrafted(1, 3.0, 1.0);  // Earlier savings of trials do not pay for this loss.
  EXPECT_DOUBLE_EQ(gate.level(), -1);
  EXPECT_FALSE(gate.open());
}

TEST(DraftGateTest, AUselessDrafterCostsTheStartLevelAndThenHalfAPercent) {
  for (const double cycle_time : {1.2, 1.5, 2.0, 4.0}) {
    DraftGate gate;
    const Totals first = RunCycles(gate, 2000, cycle_time, 0);
    EXPECT_LE(first.time - first.tokens, 6 + cycle_time + 0.005 * first.tokens) << cycle_time;
    const Totals later = RunCycles(gate, 20000, cycle_time, 0);
    EXPECT_LE(later.time / later.tokens, 1.005) << cycle_time;
    EXPECT_GT(later.drafts, 0) << cycle_time;
  }
}

TEST(DraftGateTest, TheLossIsBoundedForEveryDrafter) {
  for (const double cycle_time : {1.1, 1.6, 3.0}) {
    for (const double accepted : {0.0, 0.1, 0.3, 0.6, 1.0}) {
      for (uint32_t seed = 0; seed < 20; ++seed) {
        DraftGate gate;
        const Totals totals = RunCycles(gate, 3000, cycle_time, accepted, seed);
        EXPECT_LE(totals.time - totals.tokens, DraftGate::kHighestLevel - DraftGate::kLowestLevel +
                                                   2 * cycle_time + 0.01 * totals.tokens)
            << cycle_time << " " << accepted;
      }
    }
  }
}

TEST(DraftGateTest, AGoodDrafterIsAlmostAlwaysUsed) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    DraftGate gate;
    EXPECT_GE(RunCycles(gate, 2000, 1.9, 2.0, seed).drafts, 1960);
  }
}

TEST(DraftGateTest, ADrafterThatImprovesIsUsedAgain) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    DraftGate gate;
    RunCycles(gate, 5000, 1.9, 0);
    RunCycles(gate, 500, 1.9, 2.0, seed);
    EXPECT_GE(RunCycles(gate, 500, 1.9, 2.0, seed + 100).drafts, 450);
  }
}

TEST(DraftGateTest, ADrafterThatBecomesUselessLosesLittleMoreThanTheLevel) {
  DraftGate gate;
  RunCycles(gate, 500, 1.9, 3.0);
  const Totals bad = RunCycles(gate, 1000, 1.9, 0);
  EXPECT_LE(bad.time - bad.tokens, DraftGate::kHighestLevel - DraftGate::kLowestLevel + 10);
}

TEST(DraftGateTest, OneStalledDraftDoesNotCloseTheGateAtAHighLevel) {
  DraftGate gate;
  RunCycles(gate, 500, 1.5, 3.0);
  gate.ObserveDrafted(1, 10000.0, 1.0);
  EXPECT_TRUE(gate.open());
}

TEST(DraftGateTest, AStalledTrialIsPaidBackInFullBeforeTheNextTrial) {
  DraftGate gate;
  RunCycles(gate, 3000, 2.0, 0);
  while (!gate.open()) gate.ObservePlain();
  gate.ObserveDrafted(1, 101.0, 1.0);
  const auto steps_for_one = static_cast<int>(1 / DraftGate::TrialRate(DraftGate::kLowestLevel));
  for (int i = 0; i < 99 * steps_for_one; ++i) gate.ObservePlain();
  EXPECT_FALSE(gate.open());
  for (int i = 0; i < 2 * steps_for_one; ++i) gate.ObservePlain();
  EXPECT_TRUE(gate.open());
}

TEST(DraftGateTest, ANewSequenceStartsAtTheSameLevelCappedAtTheTrustedLevel) {
  DraftGate high;
  RunCycles(high, 500, 1.5, 3.0);
  EXPECT_EQ(high.level(), DraftGate::kHighestLevel);
  EXPECT_EQ(high.ForNewSequence().level(), DraftGate::kTrustedLevel);
  EXPECT_EQ(DraftGate().ForNewSequence().level(), DraftGate::kStartLevel);
  DraftGate low;
  RunCycles(low, 3000, 2.0, 0);
  EXPECT_EQ(low.ForNewSequence().level(), DraftGate::kLowestLevel);
}

TEST(DraftGateTest, TheLevelNeverFallsBelowTheLowest) {
  DraftGate gate;
  for (int i = 0; i < 1000; ++i) gate.ObserveDrafted(1, 3.0, 1.0);
  EXPECT_EQ(gate.level(), DraftGate::kLowestLevel);
}

TEST(PaceTest, IsTheRatioOfTheDecayingSums) {
  Pace pace;
  EXPECT_EQ(pace.tokens_per_second(), 0);
  pace.Observe(4, 0.5);
  EXPECT_DOUBLE_EQ(pace.tokens_per_second(), 8);
  pace.Observe(1, 0.5);
  EXPECT_DOUBLE_EQ(pace.tokens_per_second(), (4 * 31 / 32.0 + 1) / (0.5 * 31 / 32.0 + 0.5));
  for (int i = 0; i < 1000; ++i) pace.Observe(3, 1);
  EXPECT_NEAR(pace.tokens_per_second(), 3, 1e-6);
}

}  // namespace
}  // namespace bastion
