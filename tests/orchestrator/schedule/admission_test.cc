#include "orchestrator/schedule/admission.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "tests/orchestrator/schedule/running_fixture.h"

namespace bastion {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::kToyPage;

class AdmissionTest : public testing::RunningTest {
 protected:
  void Starve(size_t index) {
    running_->all()[index]->sequence().RecordStarvation(absl::ResourceExhaustedError("no page"));
  }
};

TEST_F(AdmissionTest, RequestsEnterWhileSlotsLast) {
  Start(/*pages=*/100, /*max_running=*/2);
  for (const char* id : {"a", "b", "c"}) Push({.id = id});
  ASSERT_TRUE(Admit().ok());
  EXPECT_THAT(Running(), ElementsAre("a", "b"));
  EXPECT_EQ(queue_.counts().waiting, 1);
}

TEST_F(AdmissionTest, ARequestEntersWhenItsPromptAndRoomForOutputFit) {
  Start(/*pages=*/8);
  Push({.id = "a", .prompt = Prompt(3 * kToyPage)});
  Push({.id = "b", .prompt = Prompt(3 * kToyPage, 1), .max_tokens = 2 * kToyPage});
  AdmitAndPrefill();
  EXPECT_THAT(Running(), ElementsAre("a")) << "b needs 5 pages; 4 are free, and a keeps one";
  running_->set_free_tokens(6 * kToyPage);
  ASSERT_TRUE(Admit().ok());
  EXPECT_THAT(Running(), ElementsAre("a", "b"));
}

TEST_F(AdmissionTest, TheFirstRequestEntersHoweverFullTheCacheIs) {
  Start(/*pages=*/4);
  running_->set_free_tokens(0);
  Push({});
  ASSERT_TRUE(Admit().ok());
  EXPECT_EQ(running_->size(), 1u);
}

TEST_F(AdmissionTest, AnErrorOfOpenEndsTheAdmission) {
  Start(/*pages=*/100);
  Push({});
  Push({});
  const absl::Status admitted =
      admission_->Admit([](LiveRequest&) { return absl::UnavailableError("gone"); });
  EXPECT_TRUE(absl::IsUnavailable(admitted));
  EXPECT_EQ(running_->size(), 1u) << "the loss of the verifier suspends it";
  EXPECT_EQ(queue_.counts().waiting, 1);
}

TEST_F(AdmissionTest, TheLatestRequestOfTheLowestWeightIsPreempted) {
  Start(/*pages=*/100);
  const std::vector<std::pair<const char*, int>> requests = {
      {"a", 5}, {"b", 5}, {"c", 10}, {"d", 10}};
  for (const auto& [id, priority] : requests) {
    Push({.client = id, .id = id, .priority = priority, .prompt = Prompt(2 * kToyPage + 1)});
  }
  AdmitAndPrefill();
  ASSERT_EQ(running_->size(), 4u);
  std::vector<std::string> expected = {"a", "c", "d"};
  for (size_t i = 0; i < running_->size(); ++i) {
    if (Running()[i] == "c") Starve(i);
  }
  running_->set_free_tokens(0);
  EXPECT_TRUE(admission_->Preempt(/*turn_size=*/4));
  std::vector<std::string> left = Running();
  std::sort(left.begin(), left.end());
  EXPECT_EQ(left, expected);
  EXPECT_EQ(admission_->preemptions(), 1);
  EXPECT_EQ(queue_.counts().waiting, 1);
  EXPECT_GT(running_->free_tokens(), 0);
  EXPECT_FALSE(admission_->Preempt(/*turn_size=*/4)) << "the free pages suffice now";
}

TEST_F(AdmissionTest, ARequestThatAloneExceedsTheCacheFails) {
  Start(/*pages=*/4);
  Push({.prompt = Prompt(4 * kToyPage + 1), .max_tokens = 2});
  AdmitAndPrefill();
  Starve(0);
  EXPECT_FALSE(admission_->Preempt(/*turn_size=*/2)) << "the forward was not for it alone";
  EXPECT_TRUE(running_->all()[0]->sequence().status().ok());
  EXPECT_FALSE(admission_->Preempt(/*turn_size=*/1));
  const absl::Status status = running_->all()[0]->sequence().status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("holds 64 tokens"));
}

TEST_F(AdmissionTest, ARequestThatIsRefusedAgainAndAgainAlthoughPagesAreFreeFails) {
  Start(/*pages=*/100);
  Push({.prompt = Prompt(2 * kToyPage + 1)});
  AdmitAndPrefill();
  LiveRequest& request = *running_->all()[0];
  const auto refuse = [&] {
    Starve(0);
    admission_->FailRefused({.decoding = {&request}, .chunks = {}});
  };
  for (int turn = 0; turn < 5; ++turn) refuse();
  running_->set_free_tokens(0);
  refuse();
  EXPECT_EQ(request.refused_forwards, 0) << "the pages explain the refusal";
  running_->set_free_tokens(verifier_.kv_tokens);
  for (int turn = 0; turn < 7; ++turn) refuse();
  EXPECT_TRUE(request.sequence().status().ok());
  refuse();
  EXPECT_TRUE(absl::IsInternal(request.sequence().status())) << request.sequence().status();
}

}  // namespace
}  // namespace bastion
