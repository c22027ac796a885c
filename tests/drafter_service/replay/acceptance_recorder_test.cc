#include "drafter_service/replay/acceptance_recorder.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/drafter_service/replay/stub_engine.h"

namespace bastion::drafter {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A cycle of a text that a recorder observes.
void RunCycle(DrafterEngine& engine, const std::vector<TokenId>& text, Position committed,
              Position sent) {
  Frontier frontier;
  frontier.sequence = {1, 0};
  frontier.committed = committed;
  frontier.root = text[committed];
  frontier.new_tokens = {text.begin() + sent, text.begin() + committed};
  frontier.candidates = 3;
  ASSERT_TRUE(engine.Expand({&frontier, 1}).ok());
}

TEST(AcceptanceRecorderTest, RecordsTheRanksOfTheTextThatFollows) {
  auto recorder = AcceptanceRecorder::Create(StubEngine::Make(/*positions=*/2));
  ASSERT_TRUE(recorder.ok()) << recorder.status();
  // The stub predicts 0, 1 and 2 at every position.
  const std::vector<TokenId> text = {9, 9, 9, 1, 7, 0, 2, 4, 4};
  RunCycle(**recorder, text, 2, 0);
  RunCycle(**recorder, text, 4, 2);
  RunCycle(**recorder, text, 7, 4);  // No token that follows is known when the sequence closes.
  EXPECT_TRUE((*recorder)->profile().blocks.empty());
  (*recorder)->Close({1, 0});
  const AcceptanceProfile& profile = (*recorder)->profile();
  ASSERT_EQ(profile.blocks.size(), 2u);
  EXPECT_THAT(profile.blocks[0].ranks, ElementsAre(1, ProfiledBlock::kAbsent));
  EXPECT_THAT(profile.blocks[1].ranks, ElementsAre(0, 2));
  EXPECT_NEAR(profile.blocks[0].top[0], std::exp(-1.0F), 1e-6);
  EXPECT_TRUE(profile.Validate().ok());
  EXPECT_EQ(profile.name, "stub");
}

TEST(AcceptanceRecorderTest, RefusesDraftersThatExpandNodes) {
  const auto recorder = AcceptanceRecorder::Create(StubEngine::Make(/*positions=*/1));
  EXPECT_TRUE(absl::IsFailedPrecondition(recorder.status()));
  EXPECT_THAT(recorder.status().message(), HasSubstr("stub expands nodes"));
}

}  // namespace
}  // namespace bastion::drafter
