#include "orchestrator/planner/rest_schedule.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"

namespace bastion {
namespace {

// Runs cycles of a batch whose speculation makes `gain` times the tokens of plain decoding.
struct Batch {
  RestSchedule rests;
  double planning_seconds = 0.02;
  double predicted_seconds = 1.0;
  int cycles = 0;
  std::vector<int> saved, tried;  // The cycles that rested, by purpose.

  void Cycles(int count, int sequences, double gain, bool plain_known = true) {
    for (; count > 0; --count, ++cycles) {
      if (const auto reason = rests.Reason(sequences); reason.has_value()) {
        (*reason == BudgetReason::kCost ? saved : tried).push_back(cycles);
        rests.EndRest(sequences, {.seconds = 1.0, .tokens = 1.0 * sequences});
        continue;
      }
      rests.EndCycle(sequences, {.seconds = 1.0, .tokens = gain * sequences},
                     {.tokens = 1.0 * sequences,
                      .seconds = predicted_seconds,
                      .known = plain_known,
                      .planning_seconds = planning_seconds});
    }
  }
};

TEST(RestScheduleTest, ABatchThatGainsDoesNotRestToSaveTime) {
  Batch batch;
  batch.Cycles(1000, 4, 1.2);
  EXPECT_TRUE(batch.saved.empty());
}

TEST(RestScheduleTest, ABatchThatLosesRestsForLongerAndLonger) {
  Batch batch;
  batch.Cycles(20'000, 8, 0.98);
  // Nearly all cycles in the end.
  const auto late =
      std::count_if(batch.saved.begin(), batch.saved.end(), [](int n) { return n >= 10'000; });
  EXPECT_GE(late, 9'500);
  EXPECT_LT(late, 10'000);
  // The first rest is short.
  ASSERT_GT(batch.saved.size(), RestSchedule::kFirstRest);
  EXPECT_GT(batch.saved[RestSchedule::kFirstRest] - batch.saved[0], RestSchedule::kFirstRest);
}

TEST(RestScheduleTest, ABatchDoesNotRestIfPlanningTakesNoTime) {
  Batch batch;
  batch.planning_seconds = 0.001;
  batch.Cycles(1000, 8, 0.98);
  EXPECT_TRUE(batch.saved.empty());
}

TEST(RestScheduleTest, TheMeasuredRateOfPlainDecodingCountsNotThePrediction) {
  Batch batch;
  batch.predicted_seconds = 1.1;  // Speculation looks better than it is, until a trial.
  batch.Cycles(5'000, 8, 0.98, /*plain_known=*/false);
  EXPECT_GT(batch.saved.size(), 4'000u);
}

TEST(RestScheduleTest, CyclesThatAreNotTypicalSayNothingAboutGains) {
  RestSchedule rests;
  for (int cycle = 0; cycle < 1000; ++cycle) {
    ASSERT_FALSE(rests.Reason(4).has_value());
    rests.EndCycle(4, {.seconds = 20, .tokens = 4, .typical = false},
                   {.tokens = 4, .seconds = 1000, .planning_seconds = 1});
  }
}

TEST(RestScheduleTest, ABatchThatGainsAgainStopsResting) {
  Batch batch;
  batch.Cycles(4000, 8, 0.98);
  batch.Cycles(RestSchedule::kLongestRest, 8, 1.3);
  batch.saved.clear();
  batch.Cycles(1'000, 8, 1.3);
  EXPECT_TRUE(batch.saved.empty());
  // It lost its habit of long rests.
  batch.Cycles(400, 8, 0.9);
  EXPECT_GT(batch.saved.size(), 0u);
  EXPECT_LT(batch.saved.size(), 380u);
}

TEST(RestScheduleTest, EachOctaveOfTheNumberOfRequestsRestsForItself) {
  Batch batch;
  batch.Cycles(1'000, 16, 0.9);
  EXPECT_FALSE(batch.saved.empty());
  batch.saved.clear();
  batch.Cycles(100, 15, 1.2);
  EXPECT_TRUE(batch.saved.empty());
  EXPECT_FALSE(batch.rests.Reason(15).has_value());
}

TEST(RestScheduleTest, TriesPlainDecodingForAFewCyclesIfItsTimeIsNotKnown) {
  Batch batch;
  batch.Cycles(100, 1, 4.0, /*plain_known=*/false);
  ASSERT_EQ(batch.tried.size(), RestSchedule::kTrialCycles);
  EXPECT_EQ(batch.tried[0], RestSchedule::kTrialWait);
  EXPECT_EQ(batch.tried.back() - batch.tried[0], RestSchedule::kTrialCycles - 1);
}

TEST(RestScheduleTest, TrialsOfPlainDecodingLoseAShareOfTheTime) {
  Batch batch;
  constexpr int kCycles = 20'000;
  batch.Cycles(kCycles, 1, 2.5);
  // A second of plain decoding makes what speculation makes in 0.4 s.
  EXPECT_NEAR(0.6 * static_cast<double>(batch.tried.size()), kCycles * RestSchedule::kTrialShare,
              0.1 * kCycles * RestSchedule::kTrialShare);
}

}  // namespace
}  // namespace bastion
