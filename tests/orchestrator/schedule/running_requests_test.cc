#include "orchestrator/schedule/running_requests.h"

#include "gmock/gmock.h"
#include "tests/orchestrator/schedule/running_fixture.h"

namespace bastion {
namespace {

using ::testing::ElementsAre;
using testing::kToyPage;

using RunningRequestsTest = testing::RunningTest;

TEST_F(RunningRequestsTest, ASuspendedRequestGivesBackItsPagesAndWaitsBeforeOthers) {
  Start(/*pages=*/20);
  Push({.id = "a", .prompt = Prompt(3 * kToyPage + 1)});
  AdmitAndPrefill();
  EXPECT_EQ(running_->free_tokens(), 17 * kToyPage);
  Push({.id = "b"});
  running_->Requeue(running_->Suspend(0));
  EXPECT_EQ(running_->free_tokens(), 20 * kToyPage);
  EXPECT_EQ(queue_.counts().waiting, 2);
  ASSERT_TRUE(Admit().ok());
  EXPECT_THAT(Running(), ElementsAre("a", "b"));
}

TEST_F(RunningRequestsTest, RequestsThatCannotContinueLeave) {
  Start(/*pages=*/20);
  const auto canceled = Push({.id = "canceled"});
  Push({.id = "late", .deadline = absl::Seconds(1)});
  Push({.id = "failed"});
  Push({.id = "good"});
  AdmitAndPrefill();
  ASSERT_EQ(running_->size(), 4u);
  for (const auto& request : running_->all()) {
    if (request->request().request_id == "failed") {
      request->sequence().Fail(absl::InternalError("broken"));
    }
  }
  queue_.Cancel(*canceled);
  clock_.Advance(absl::Seconds(2));
  running_->Retire();
  EXPECT_THAT(Running(), ElementsAre("good"));
  EXPECT_THAT(ends_.ended(), ::testing::UnorderedElementsAre(absl::StatusCode::kCancelled,
                                                             absl::StatusCode::kDeadlineExceeded,
                                                             absl::StatusCode::kInternal));
  EXPECT_EQ(queue_.counts().running, 1);
}

TEST_F(RunningRequestsTest, TheOtherAnswersWaitOnceThePromptIsPrefilled) {
  Start(/*pages=*/20);
  Push({.prompt = Prompt(5), .answers = 3});
  ASSERT_TRUE(Admit().ok());
  running_->QueueOtherAnswers();
  EXPECT_EQ(queue_.counts().waiting, 0);
  AdmitAndPrefill();
  running_->QueueOtherAnswers();
  running_->QueueOtherAnswers();
  EXPECT_EQ(queue_.counts().waiting, 2);
}

TEST_F(RunningRequestsTest, FailAllEndsWhatRunsAndWhatWaits) {
  Start(/*pages=*/20, /*max_running=*/1);
  Push({});
  Push({});
  ASSERT_TRUE(Admit().ok());
  running_->FailAll(absl::UnavailableError("the service is shutting down"));
  EXPECT_TRUE(running_->empty());
  EXPECT_EQ(ends_.ended().size(), 2u);
  EXPECT_EQ(queue_.counts().waiting + queue_.counts().running, 0);
  EXPECT_EQ(verifier_.live_sequences(), 0);
  EXPECT_TRUE(absl::IsUnavailable(queue_.CheckRoom(0)));
}

}  // namespace
}  // namespace bastion
