// A verifier that is lost and returns loses no answer. One that does not return in time, or returns
// with another model, ends the requests with UNAVAILABLE.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/orchestrator/schedule/scheduler_fixture.h"
#include "tests/orchestrator/schedule/throwing_observer.h"

namespace bastion {
namespace {

using testing::Answer;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ReadAll;
using testing::ToyText;

class SchedulerVerifierLossTest : public testing::SchedulerTest {
 protected:
  // Waits for the first output.
  static void AwaitOutput(RequestStream& stream, std::vector<TokenId>* tokens) {
    OutputDelta first;
    ASSERT_EQ(stream.WaitForEvent(absl::Seconds(20), first), RequestStream::Event::kDelta);
    tokens->insert(tokens->end(), first.tokens.begin(), first.tokens.end());
  }
  // The verifier ends, and another process takes its place after a while.
  void RestartVerifier() {
    verifier_.SetUnavailable(true);
    ASSERT_TRUE(AwaitReady(false));
    verifier_.SetUnavailable(false);
    ASSERT_TRUE(AwaitReady(true));
  }
  // Runs `ending`, which ends the verifier, between two requests whose answers do not contain
  // kEndingToken.
  void ExpectOnlyThisFails(const testing::RequestSpec& ending) {
    const std::vector<TokenId> prompts = {2, 4};
    std::shared_ptr<RequestStream> failing;
    std::vector<std::shared_ptr<RequestStream>> others;
    SubmitTogether([&] {
      others.push_back(Submit({.prompt = {prompts[0]}, .max_tokens = 20}));
      failing = Submit(ending);
      others.push_back(Submit({.prompt = {prompts[1]}, .max_tokens = 20}));
    });
    EXPECT_TRUE(absl::IsUnavailable(ReadAll(*failing).status));
    for (size_t i = 0; i < others.size(); ++i) {
      const std::vector<TokenId> expected = ToyText({prompts[i]}, {}, 20);
      ASSERT_THAT(expected, Not(Contains(kEndingToken)));
      const Answer answer = ReadAll(*others[i]);
      EXPECT_TRUE(answer.status.ok()) << answer.status;
      EXPECT_EQ(answer.tokens, expected);
    }
    EXPECT_TRUE(AwaitIdle());
    EXPECT_TRUE(verifier_.AwaitLive(0));
  }

  static constexpr TokenId kEndingToken = 96;
};

TEST_F(SchedulerVerifierLossTest, AnswersContinueWithTheSameTextWhenTheVerifierReturns) {
  options_.max_running = 3;  // One more waits.
  StartAndAwaitReady();
  const std::vector<std::pair<std::vector<TokenId>, const char*>> cases = {
      {{1, 2, 3}, "ar"}, {{4}, "chain"}, {{5, 6}, "fixed:8"}, {{7, 8, 9}, "adaptive"}};
  verifier_.Hold(true);
  std::vector<std::shared_ptr<RequestStream>> streams;
  for (const auto& [prompt, policy] : cases) {
    streams.push_back(Submit({.prompt = prompt, .max_tokens = 200, .policy = policy}));
  }
  verifier_.Hold(false);
  std::vector<TokenId> tokens;
  AwaitOutput(*streams[0], &tokens);
  for (int loss = 0; loss < 3; ++loss) RestartVerifier();
  for (size_t i = 0; i < cases.size(); ++i) {
    const Answer answer = ReadAll(*streams[i]);
    ASSERT_TRUE(answer.status.ok()) << cases[i].second << ": " << answer.status;
    if (i > 0) tokens.clear();
    tokens.insert(tokens.end(), answer.tokens.begin(), answer.tokens.end());
    EXPECT_EQ(tokens, ToyText(cases[i].first, {}, 200)) << cases[i].second;
  }
  EXPECT_TRUE(AwaitIdle());
  EXPECT_TRUE(verifier_.AwaitLive(0));
}

TEST_F(SchedulerVerifierLossTest, NewRequestsAreRefusedWhileAcceptedOnesWait) {
  StartAndAwaitReady();
  const auto running = Submit({.max_tokens = 300});
  std::vector<TokenId> tokens;
  AwaitOutput(*running, &tokens);
  verifier_.SetUnavailable(true);
  ASSERT_TRUE(AwaitReady(false));
  const absl::Status refused = TrySubmit({});
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), Not(HasSubstr("verifier at")));
  EXPECT_EQ(scheduler_->stats().waiting, 1);
  verifier_.SetUnavailable(false);
  EXPECT_TRUE(ReadAll(*running).status.ok());
}

TEST_F(SchedulerVerifierLossTest, RequestsFailIfTheVerifierDoesNotReturnInTime) {
  options_.verifier_patience = absl::Milliseconds(100);
  options_.max_running = 1;
  StartAndAwaitReady();
  const auto running = Submit({.max_tokens = 400});
  std::vector<TokenId> tokens;
  AwaitOutput(*running, &tokens);
  const auto waiting = Submit({});
  const absl::Duration lost = Clock::Real().Now();
  verifier_.SetUnavailable(true);
  EXPECT_TRUE(absl::IsUnavailable(ReadAll(*running).status));
  EXPECT_GE(Clock::Real().Now() - lost, options_.verifier_patience);
  EXPECT_TRUE(absl::IsUnavailable(ReadAll(*waiting).status));
  verifier_.SetUnavailable(false);
  ASSERT_TRUE(AwaitReady(true));
  const auto again = Submit({.prompt = {2}, .max_tokens = 5});
  EXPECT_EQ(ReadAll(*again).tokens, ToyText({2}, {}, 5));
}

TEST_F(SchedulerVerifierLossTest, AnEarlierLossDoesNotShortenThePatience) {
  options_.verifier_patience = absl::Milliseconds(500);
  StartAndAwaitReady();
  RestartVerifier();
  absl::SleepFor(options_.verifier_patience);
  const auto stream = Submit({.max_tokens = 300});
  RestartVerifier();
  EXPECT_TRUE(ReadAll(*stream).status.ok());
}

TEST_F(SchedulerVerifierLossTest, AnotherModelBehindTheAddressEndsTheRequests) {
  StartAndAwaitReady();
  const auto running = Submit({.max_tokens = 400});
  std::vector<TokenId> tokens;
  AwaitOutput(*running, &tokens);
  verifier_.SetUnavailable(true);
  ASSERT_TRUE(AwaitReady(false));
  verifier_.fake()->identity = "another checkpoint of this shape";
  verifier_.SetUnavailable(false);
  const Answer answer = ReadAll(*running);
  EXPECT_TRUE(absl::IsUnavailable(answer.status)) << answer.status;
  ASSERT_TRUE(AwaitReady(true));
  EXPECT_EQ(scheduler_->stats().target.identity, "another checkpoint of this shape");
  EXPECT_TRUE(ReadAll(*Submit({})).status.ok());
}

TEST_F(SchedulerVerifierLossTest, ALossWhileIdleIsNoticed) {
  StartAndAwaitReady();
  const absl::Duration lost = Clock::Real().Now();
  verifier_.SetUnavailable(true);
  ASSERT_TRUE(AwaitReady(false));
  EXPECT_LT(Clock::Real().Now() - lost, absl::Seconds(1));
  EXPECT_TRUE(absl::IsUnavailable(TrySubmit({})));
}

TEST_F(SchedulerVerifierLossTest, ALossDuringOpenLosesNoAnswer) {
  for (const auto& error :
       {absl::UnavailableError("the stream broke"), absl::DeadlineExceededError("late")}) {
    StartAndAwaitReady();
    verifier_.FailNextOpen(error);
    const Answer answer = ReadAll(*Submit({.prompt = {1}, .max_tokens = 30}));
    ASSERT_TRUE(answer.status.ok()) << answer.status;
    EXPECT_EQ(answer.tokens, ToyText({1}, {}, 30));
    scheduler_.reset();
  }
}

TEST_F(SchedulerVerifierLossTest, AnExceptionInACycleLosesNoAnswer) {
  StartAndAwaitReady();
  verifier_.ThrowOnce();
  const Answer answer = ReadAll(*Submit({.prompt = {1}, .max_tokens = 30, .policy = "chain"}));
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(answer.tokens, ToyText({1}, {}, 30));
}

TEST_F(SchedulerVerifierLossTest, AnAnswerWhoseEndWasNotPublishedFails) {
  StartAndAwaitReady();
  ThrowAfterForwardOfTwo();
  std::shared_ptr<RequestStream> longer, finished;
  SubmitTogether([&] {
    longer = SubmitClocked({.prompt = {2}, .max_tokens = 30});
    finished = Submit({.prompt = {3}, .max_tokens = 1});
  });
  const Answer lost = ReadAll(*finished);
  EXPECT_TRUE(absl::IsInternal(lost.status)) << lost.status;
  const Answer answer = ReadAll(*longer);
  EXPECT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(answer.tokens, ToyText({2}, {}, 30));
  EXPECT_TRUE(AwaitIdle());
}

TEST_F(SchedulerVerifierLossTest, ARequestWhoseOpeningEndsTheVerifierEndsNoOther) {
  StartAndAwaitReady();
  verifier_.EndAtSeed(7);
  ExpectOnlyThisFails({.prompt = {3}, .seed = 7});
}

TEST_F(SchedulerVerifierLossTest, AnObserverThatThrowsAtAnEndLosesNoOtherAnswer) {
  testing::ThrowingObserver observer;
  observer_ = &observer;
  StartAndAwaitReady();
  std::vector<std::shared_ptr<RequestStream>> streams;
  SubmitTogether([&] {
    for (const TokenId token : {2, 3, 4}) {
      streams.push_back(Submit({.prompt = {token}, .max_tokens = 5}));
    }
  });
  for (const TokenId token : {2, 3, 4}) {
    const Answer answer = ReadAll(*streams[token - 2]);
    EXPECT_TRUE(answer.status.ok()) << answer.status;
    EXPECT_EQ(answer.tokens, ToyText({token}, {}, 5));
  }
  EXPECT_TRUE(AwaitIdle());
  EXPECT_EQ(verifier_.opened().size(), 4u) << "no request starts over";
  scheduler_.reset();
}

TEST_F(SchedulerVerifierLossTest, ARequestThatAlwaysEndsTheVerifierFailsSoon) {
  StartAndAwaitReady();
  verifier_.EndAtRoot(96);
  EXPECT_TRUE(absl::IsUnavailable(ReadAll(*Submit({.prompt = {1, 96}})).status));
  ASSERT_TRUE(AwaitReady(true));
  EXPECT_TRUE(ReadAll(*Submit({.prompt = {2}, .max_tokens = 1})).status.ok());
}

TEST_F(SchedulerVerifierLossTest, ARequestThatAlwaysEndsTheVerifierEndsNoOther) {
  StartAndAwaitReady();
  verifier_.EndAtRoot(kEndingToken);
  ExpectOnlyThisFails({.prompt = {1, kEndingToken}});
}

TEST_F(SchedulerVerifierLossTest, AVerifierThatFailsEveryCallFailsAllWithinThePatience) {
  options_.verifier_patience = absl::Seconds(1);
  StartAndAwaitReady();
  std::vector<std::shared_ptr<RequestStream>> streams;
  SubmitTogether([&] {
    for (TokenId token = 1; token <= 8; ++token) streams.push_back(Submit({.prompt = {token}}));
    verifier_.SetOpenError(absl::UnavailableError("the stream broke"));
  });
  const absl::Duration start = Clock::Real().Now();
  for (const auto& stream : streams) EXPECT_TRUE(absl::IsUnavailable(ReadAll(*stream).status));
  EXPECT_LT(Clock::Real().Now() - start, absl::Seconds(4));
}

TEST_F(SchedulerVerifierLossTest, AVerifierThatFailsEveryCallIsAskedWithPauses) {
  StartAndAwaitReady();
  verifier_.SetOpenError(absl::UnavailableError("the stream broke"));
  const absl::Duration start = Clock::Real().Now();
  EXPECT_TRUE(absl::IsUnavailable(ReadAll(*Submit({.prompt = {1}})).status));
  const auto tries = static_cast<int>(verifier_.opened().size());
  EXPECT_GT(tries, 1);
  EXPECT_GE(Clock::Real().Now() - start, (tries - 1) * absl::Milliseconds(50));
}

TEST_F(SchedulerVerifierLossTest, AWaitingRequestCanBeCanceledAndEndsAtItsDeadline) {
  StartAndAwaitReady();
  const auto canceled = Submit({.max_tokens = 300});
  const auto late =
      Submit({.max_tokens = 400, .deadline = Clock::Real().Now() + absl::Milliseconds(300)});
  verifier_.SetUnavailable(true);
  ASSERT_TRUE(AwaitReady(false));
  scheduler_->Cancel(*canceled);
  EXPECT_TRUE(Await([&] { return !late->status().ok(); }));
  EXPECT_EQ(late->status(), LiveRequest::DeadlineError());
  EXPECT_TRUE(AwaitIdle());
}

}  // namespace
}  // namespace bastion
