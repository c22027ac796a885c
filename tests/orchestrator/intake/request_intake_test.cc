// Tests which calls may enter. That nothing is tokenized before is tested in tests/regression.
#include "orchestrator/intake/request_intake.h"

#include <gmock/gmock.h>

#include <optional>
#include <vector>

#include "orchestrator/schedule/error_details.h"
#include "tests/orchestrator/intake/served_model_fixture.h"
#include "tests/orchestrator/schedule/scheduler_fixture.h"

namespace bastion {
namespace {

using ::testing::HasSubstr;

class RequestIntakeTest : public testing::SchedulerTest {
 protected:
  void SetUp() override {
    SchedulerTest::SetUp();
    request_.set_text("the cat");
  }
  void Serve(const IntakeOptions& options = {}) {
    StartAndAwaitReady();
    intake_.emplace(&parser_, scheduler_.get(), options);
  }

  const testing::ServedModelFixture model_;
  const RequestParser parser_{&model_.model(), *Policy::Parse("ar")};
  v1::GenerateRequest request_;
  std::optional<RequestIntake> intake_;
};

TEST_F(RequestIntakeTest, TheRequestHasTheCallersNameAndDeadline) {
  Serve();
  const absl::Duration deadline = Clock::Real().Now() + absl::Hours(1);
  const auto entered = intake_->Enter(request_, {.client = "c", .deadline = deadline});
  ASSERT_TRUE(entered.ok()) << entered.status();
  EXPECT_EQ(entered->requests.front().client, "c");
  EXPECT_EQ(entered->requests.front().deadline, deadline);
  EXPECT_FALSE(entered->requests.front().decode.prompt.empty());
}

TEST_F(RequestIntakeTest, ACallerWithANameIsOneClientWhateverItStates) {
  Serve({.max_client_calls = 1});
  const auto first = intake_->Enter(request_, {.name = "alice", .client = "one"});
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->requests.front().client, "alice");
  const auto second = intake_->Enter(request_, {.name = "alice", .client = "two"});
  EXPECT_TRUE(absl::IsResourceExhausted(second.status())) << second.status();
}

TEST_F(RequestIntakeTest, CallersWithDifferentNamesNeverShareASalt) {
  Serve();
  const auto salt = [&](const char* name, const char* stated) {
    request_.set_cache_salt(stated);
    return intake_->Enter(request_, {.name = name})->requests.front().decode.cache_salt;
  };
  EXPECT_EQ(salt("alice", "s"), salt("alice", "s"));
  EXPECT_NE(salt("alice", "s"), salt("alices", ""));
  EXPECT_NE(salt("alice", ""), salt("bob", ""));
  EXPECT_EQ(salt("", "s"), "s");
}

TEST_F(RequestIntakeTest, AClientHasNoMoreCallsThanAllowed) {
  Serve({.max_client_calls = 1});
  auto first = intake_->Enter(request_, {.client = "c"});
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(absl::IsResourceExhausted(intake_->Enter(request_, {.client = "c"}).status()));
  EXPECT_TRUE(intake_->Enter(request_, {.client = "other"}).ok());
  first = absl::UnknownError("");
  EXPECT_TRUE(intake_->Enter(request_, {.client = "c"}).ok());
}

TEST_F(RequestIntakeTest, ACallWhoseClientIsGoneIsNotTokenized) {
  Serve();
  request_.set_text("caf\xe9");
  const absl::Status gone = intake_->Enter(request_, {.is_canceled = [] { return true; }}).status();
  EXPECT_TRUE(absl::IsCancelled(gone)) << gone;
  const absl::Status late = intake_->Enter(request_, {.deadline = Clock::Real().Now()}).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(late)) << late;
}

TEST_F(RequestIntakeTest, CallsThatEnterTakePlacesInTheQueue) {
  options_.max_running = 1;
  options_.max_waiting = 2;
  Serve();
  verifier_.Hold(true);
  std::vector<std::shared_ptr<RequestStream>> streams = {Submit({})};
  ASSERT_TRUE(Await([&] { return scheduler_->stats().waiting == 0; }));
  streams.push_back(Submit({}));
  EXPECT_TRUE(scheduler_->CheckRoom(0).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(scheduler_->CheckRoom(1)));
  verifier_.Hold(false);
  for (const auto& stream : streams) EXPECT_TRUE(testing::ReadAll(*stream).status.ok());
}

TEST_F(RequestIntakeTest, ACallWithMorePromptsThanTheQueueHoldsIsNotToldToRetry) {
  options_.max_waiting = 2;
  Serve();
  const std::vector<const v1::GenerateRequest*> prompts(3, &request_);
  const absl::Status refused = intake_->Enter(prompts, {}).status();
  const auto problem = FieldProblemOf(refused);
  ASSERT_TRUE(problem.has_value()) << refused;
  EXPECT_EQ(problem->field, "prompt");
  EXPECT_THAT(problem->problem, HasSubstr("holds 2"));
  EXPECT_FALSE(RetryDelay(refused).has_value());
  EXPECT_TRUE(intake_->Enter(absl::MakeConstSpan(prompts).first(2), {}).ok());
}

TEST_F(RequestIntakeTest, AnErrorOfAFieldIsForClients) {
  Serve();
  request_.set_n(129);
  const absl::Status refused = intake_->Enter(request_, {}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_TRUE(IsForClient(refused));
}

}  // namespace
}  // namespace bastion
