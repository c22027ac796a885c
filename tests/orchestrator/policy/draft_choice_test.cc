#include "orchestrator/policy/draft_choice.h"

#include <random>

#include "gtest/gtest.h"

namespace bastion {
namespace {

TEST(FadingLineTest, FitsALineAndFollowsChanges) {
  FadingLine line;
  for (int i = 0; i < 300; ++i) line.Observe(i % 7, 2 + 0.5 * (i % 7));
  EXPECT_NEAR(line.At(0), 2, 0.05);
  EXPECT_NEAR(line.At(6), 5, 0.05);
  for (int i = 0; i < 1500; ++i) line.Observe(i % 7, 9);
  EXPECT_NEAR(line.At(3), 9, 0.05);
}

TEST(FadingLineTest, OnePointGivesAConstant) {
  FadingLine line;
  line.Observe(3, 4);
  EXPECT_EQ(line.At(3), 4);
  EXPECT_EQ(line.At(30), 4);
}

// 1000 tokens per second, so one token is worth one millisecond.
constexpr double kPace = 1000;

TEST(DraftChoiceTest, DraftsUntilItHasEnoughCycles) {
  DraftChoice choice;
  for (int cycles = 0; !choice.has_enough_cycles(); ++cycles) {
    EXPECT_FALSE(choice.DraftFreeWins({3, 0.001}, kPace));
    choice.ObserveDrafted(1, {1, 0.002});
    ASSERT_LT(cycles, 2 * DraftChoice::kMinCycles);
  }
  EXPECT_TRUE(choice.DraftFreeWins({3, 0.001}, kPace));
}

TEST(DraftChoiceTest, DraftsIfTheDraftFreeTreeIsShort) {
  DraftChoice choice;
  for (int i = 0; i < 100; ++i) {
    choice.ObserveDrafted(1, {3, 0.002});
    choice.ObserveDrafted(5, {6, 0.003});
  }
  // At expected length 1, a draft gives 3 tokens in 2 ms instead of 1 in 1 ms. At 5, it gives 6 in
  // 3 ms instead of 5 in 1.5 ms.
  EXPECT_FALSE(choice.DraftFreeWins({1, 0.001}, kPace));
  EXPECT_TRUE(choice.DraftFreeWins({5, 0.0015}, kPace));
  // With a low price of time, the draft wins.
  EXPECT_FALSE(choice.DraftFreeWins({5, 0.0015}, 10));
}

TEST(DraftChoiceTest, TriesADraftOncePerInterval) {
  DraftChoice choice;
  while (!choice.has_enough_cycles()) choice.ObserveDrafted(2, {1, 0.002});
  int drafts = 0;
  for (int cycle = 0; cycle < 10 * DraftChoice::kTrialInterval; ++cycle) {
    if (choice.DraftFreeWins({2, 0.001}, kPace)) {
      choice.ObserveDraftFree();
    } else {
      ++drafts;
      choice.ObserveDrafted(2, {1, 0.002});
    }
  }
  EXPECT_GE(drafts, 9);
  EXPECT_LE(drafts, 10);
}

TEST(DraftChoiceTest, ADrafterThatImprovesIsUsedAgain) {
  DraftChoice choice;
  for (int i = 0; i < 50; ++i) choice.ObserveDrafted(2, {1, 0.002});
  int late_drafts = 0;
  for (int cycle = 0; cycle < 3000; ++cycle) {
    if (choice.DraftFreeWins({2, 0.001}, kPace)) {
      choice.ObserveDraftFree();
      continue;
    }
    choice.ObserveDrafted(2, {5, 0.002});
    late_drafts += cycle >= 2500 ? 1 : 0;
  }
  EXPECT_EQ(late_drafts, 500);
}

}  // namespace
}  // namespace bastion
