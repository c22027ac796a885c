#include "orchestrator/cycle/prompt_rows.h"

#include <algorithm>
#include <numeric>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion {
namespace {

using ::testing::ElementsAre;

// The rows of new prompts with `left` tokens each.
std::vector<int> Share(const std::vector<int>& left, int budget) {
  std::vector<PromptDemand> demands;
  for (const int rows : left) demands.push_back({rows});
  return SharePromptRows(demands, budget);
}

// Runs one forward: shares `budget`, and updates the demands as the scheduler does.
std::vector<int> RunForward(std::vector<PromptDemand>& demands, int budget) {
  const std::vector<int> rows = SharePromptRows(demands, budget);
  const int total = std::accumulate(rows.begin(), rows.end(), 0);
  for (size_t i = 0; i < demands.size(); ++i) {
    demands[i].left -= rows[i];
    demands[i].overtaken += total - rows[i];
  }
  return rows;
}

TEST(PromptRowsTest, ThePromptWithTheFewestRowsLeftComesFirst) {
  EXPECT_THAT(Share({300, 40, 100}, 128), ElementsAre(0, 40, 88));
}

TEST(PromptRowsTest, AllPromptsThatFitAreComplete) {
  EXPECT_THAT(Share({30, 40}, 128), ElementsAre(30, 40));
  EXPECT_THAT(Share({}, 128), ElementsAre());
}

TEST(PromptRowsTest, WithoutABudgetNoPromptGetsRows) {
  EXPECT_THAT(Share({30, 40}, 0), ElementsAre(0, 0));
}

TEST(PromptRowsTest, EqualPromptsAreCompletedOneAfterAnother) {
  std::vector<PromptDemand> demands(15, {2000});
  std::vector<int> completed(demands.size(), 0);
  int forward = 0;
  while (std::any_of(demands.begin(), demands.end(), [](auto& d) { return d.left > 0; })) {
    RunForward(demands, 256);
    ++forward;
    for (size_t i = 0; i < demands.size(); ++i) {
      if (completed[i] == 0 && demands[i].left == 0) completed[i] = forward;
    }
  }
  for (size_t i = 0; i < demands.size(); ++i) {
    // As if the prompts were prefilled one after another.
    EXPECT_EQ(completed[i], (static_cast<int>(i + 1) * 2000 + 255) / 256) << i;
  }
}

TEST(PromptRowsTest, ALongPromptIsNotStarvedByAStreamOfShortOnes) {
  constexpr int kLong = 2000, kShort = 200, kBudget = 256;
  std::vector<PromptDemand> demands = {{kLong}};
  int others = 0;  // Rows that went to short prompts.
  while (demands[0].left > 0) {
    ASSERT_LT(others, 100 * kLong);
    demands.resize(1);
    demands.push_back({kShort});
    demands.push_back({kShort});
    const std::vector<int> rows = RunForward(demands, kBudget);
    others += rows[1] + rows[2];
  }
  EXPECT_GT(others, kLong) << "short prompts should overtake the long one at first";
  EXPECT_LE(others, 2 * kLong + kBudget);
}

}  // namespace
}  // namespace bastion
