// Which texts a step draws: uniformly from the pool, in no two steps in a row, and each as often as
// asked.
#include "tools/train/loop/text_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

namespace bastion::train {
namespace {

constexpr TextPoolOptions kSmall = {.texts = 60, .size = 12, .batch = 4, .uses = 3, .seed = 5};

TEST(TextPoolTest, NoTextIsDrawnInTwoStepsInARow) {
  TextPoolOptions tightest = kSmall;
  tightest.size = 8;
  for (const TextPoolOptions& options : {kSmall, tightest}) {
    TextPool pool(options);
    std::set<int> before;
    for (int step = 1; step <= 500; ++step) {
      const std::vector<int> drawn = pool.Next();
      EXPECT_EQ(pool.step(), step);
      const std::set<int> now(drawn.begin(), drawn.end());
      ASSERT_EQ(now.size(), 4u) << "a text is drawn twice in step " << step;
      for (const int text : now) EXPECT_FALSE(before.contains(text)) << step;
      before = now;
    }
  }
}

TEST(TextPoolTest, AllTextsAreUsedAsOftenAsEachOther) {
  TextPool pool(kSmall);
  std::vector<int> uses(kSmall.texts);
  constexpr int kRounds = 50;
  for (int step = 0; step < kRounds * kSmall.texts * kSmall.uses / kSmall.batch; ++step) {
    for (const int text : pool.Next()) ++uses[text];
  }
  // A text may be in the pool, or the first ones may have left it early.
  const auto [fewest, most] = std::minmax_element(uses.begin(), uses.end());
  EXPECT_GE(*fewest, (kRounds - 1) * kSmall.uses);
  EXPECT_LE(*most, (kRounds + 1) * kSmall.uses);
}

TEST(TextPoolTest, ATextLeavesThePoolAfterItsUses) {
  TextPool pool(kSmall);
  std::vector<int> uses(kSmall.texts);  // Since the text entered the pool.
  std::vector<bool> left(kSmall.texts);
  for (int step = 0; step < 400; ++step) {
    for (const int text : pool.Next()) {
      ++uses[text];
      EXPECT_LE(uses[text], kSmall.uses);
      if (pool.Holds(text)) continue;
      // The first texts have fewer uses.
      if (left[text]) {
        EXPECT_EQ(uses[text], kSmall.uses);
      }
      left[text] = true;
      uses[text] = 0;
    }
  }
  EXPECT_EQ(std::count(left.begin(), left.end(), true), kSmall.texts);
}

// The share of a pool that a step replaces does not come in waves.
TEST(TextPoolTest, TextsLeaveOneAfterTheOther) {
  constexpr int kSteps = 100;
  TextPool pool({.texts = 100000, .size = 400, .batch = 16, .uses = 8});
  for (int part = 0; part < 4; ++part) {
    int left = 0;
    for (int step = 0; step < kSteps; ++step) {
      for (const int text : pool.Next()) left += pool.Holds(text) ? 0 : 1;
    }
    EXPECT_NEAR(left, kSteps * 16 / 8, 40) << "part " << part;
  }
}

TEST(TextPoolTest, TextsOfThePoolAreDrawnUniformly) {
  constexpr int kSteps = 3000;
  TextPool pool({.texts = 30, .size = 30, .batch = 5, .uses = 2});
  std::vector<int> uses(30);
  for (int step = 0; step < kSteps; ++step) {
    for (const int text : pool.Next()) ++uses[text];
  }
  for (const int count : uses) EXPECT_NEAR(count, kSteps * 5 / 30, 75);
}

TEST(TextPoolTest, TheSeedDecidesTheTexts) {
  TextPool first(kSmall), second(kSmall);
  TextPoolOptions other = kSmall;
  other.seed = 6;
  TextPool third(other);
  int differences = 0;
  for (int step = 0; step < 50; ++step) {
    const std::vector<int> drawn = first.Next();
    EXPECT_EQ(second.Next(), drawn);
    if (third.Next() != drawn) ++differences;
  }
  EXPECT_GT(differences, 40);
}

TEST(PoolSizeTest, EveryChoiceOfTextsFitsIntoTheMemory) {
  EXPECT_EQ(PoolSize({5, 9, 1, 7}, 15), 1);
  EXPECT_EQ(PoolSize({5, 9, 1, 7}, 16), 2);
  EXPECT_EQ(PoolSize({5, 9, 1, 7}, 21), 3);
  EXPECT_EQ(PoolSize({5, 9, 1, 7}, 22), 4);
  EXPECT_EQ(PoolSize({5, 9, 1, 7}, 1000), 4);
  EXPECT_EQ(PoolSize({5, 9, 1, 7}, 8), 0);
}

}  // namespace
}  // namespace bastion::train
