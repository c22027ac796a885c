// A drafter that is killed or hangs costs speed, never a text or a request.
#include <memory>
#include <random>

#include "tests/faults/faults_fixture.h"

namespace bastion {
namespace {

using testing::FaultsTest;
using testing::RunningAnswer;
using testing::ServiceSystem;

class LostDrafterTest : public FaultsTest {};

TEST_F(LostDrafterTest, StoppedDuringAnAnswerItCostsAFractionOfADraftTimeout) {
  ServiceSystem& system = StartServices();
  const auto request = Request("fixed:8", 1200, 0.7f);
  const Answer before = Generate(system.client(), request);
  ASSERT_TRUE(before.status.ok()) << before.status;
  RunningAnswer answer(system, request);
  ASSERT_TRUE(answer.AwaitCycles(3));
  system.drafter->Signal(SIGSTOP);
  const Answer& ended = answer.Wait();
  ASSERT_TRUE(ended.status.ok()) << ended.status;
  EXPECT_EQ(ended.text, before.text);
  // A draft timeout is 0.5 s, and 0.1 s after quick drafts.
  EXPECT_LT(answer.largest_gap(), absl::Milliseconds(450));
  system.drafter->Signal(SIGCONT);
  // Drafts are back soon.
  uint64_t drafted = 0;
  for (int i = 0; i < 40 && drafted == 0; ++i) {
    drafted =
        Generate(system.client(), Request("fixed:8", 40)).finished.speculation().draft_tokens();
    absl::SleepFor(absl::Milliseconds(100));
  }
  EXPECT_GT(drafted, 0u);
}

TEST_F(LostDrafterTest, KilledAgainAndAgainNoRequestFails) {
  ServiceSystem& system = StartServices();
  const std::vector<v1::GenerateRequest> requests = {
      Request("fixed:8", 300), Request("default", 300, 0.9f), Request("chain", 300)};
  std::vector<std::string> texts;
  for (const auto& request : requests) {
    texts.push_back(Generate(system.client(), request).text);
  }
  std::mt19937 random(2);
  for (int kill = 0; kill < 6; ++kill) {
    std::vector<std::unique_ptr<RunningAnswer>> answers;
    for (const auto& request : requests) {
      answers.push_back(std::make_unique<RunningAnswer>(system, request));
    }
    ASSERT_TRUE(answers[0]->AwaitCycles(2));
    absl::SleepFor(absl::Milliseconds(random() % 100));
    system.drafter->Signal(SIGKILL);
    system.drafter->Wait();
    system.StartDrafter();
    for (size_t i = 0; i < answers.size(); ++i) {
      const Answer& answer = answers[i]->Wait();
      ASSERT_TRUE(answer.status.ok()) << answer.status;
      EXPECT_EQ(answer.text, texts[i]);
    }
  }
}

}  // namespace
}  // namespace bastion
