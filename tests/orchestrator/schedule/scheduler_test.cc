#include "orchestrator/schedule/scheduler.h"

#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "orchestrator/schedule/error_details.h"
#include "tests/orchestrator/schedule/scheduler_fixture.h"
#include "tests/support/temp_folder.h"

namespace bastion {
namespace {

using ::testing::AllOf;
using testing::Answer;
using ::testing::Contains;
using ::testing::Each;
using ::testing::Field;
using ::testing::Ge;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::Le;
using testing::ReadAll;
using testing::SchedulerTest;
using testing::SharedVerifier;

TEST_F(SchedulerTest, ConcurrentRequestsGetTheTextOfPlainDecoding) {
  StartAndAwaitReady();
  const std::vector<std::pair<std::vector<TokenId>, const char*>> cases = {
      {{1, 2, 3}, "ar"}, {{4}, "chain"}, {{5, 6}, "fixed:8"}, {{7, 8, 9}, "adaptive"}};
  std::vector<std::shared_ptr<RequestStream>> streams;
  for (const auto& [prompt, policy] : cases) {
    streams.push_back(Submit({.prompt = prompt, .max_tokens = 60, .policy = policy}));
  }
  for (size_t i = 0; i < cases.size(); ++i) {
    const Answer answer = ReadAll(*streams[i]);
    ASSERT_TRUE(answer.status.ok()) << answer.status;
    EXPECT_EQ(answer.tokens, testing::ToyText(cases[i].first, {}, 60)) << cases[i].second;
    EXPECT_EQ(answer.end.reason, FinishReason::kLength);
    EXPECT_EQ(answer.end.prompt_tokens, static_cast<int>(cases[i].first.size()));
    EXPECT_EQ(answer.end.completion_tokens, 60);
    EXPECT_EQ(answer.end.policy, cases[i].second);
    // Only the policy `ar` commits one token per cycle.
    EXPECT_EQ(answer.end.cycles.size() == 60, i == 0);
  }
  EXPECT_TRUE(verifier_.AwaitLive(0));
}

// The second request arrives during a forward of the first one.
class RoomTest : public SchedulerTest {
 protected:
  void ExpectSecondWaitedForRoom(int max_running, bool waited) {
    options_.max_running = max_running;
    StartAndAwaitReady();
    verifier_.Hold(true);
    const auto first = Submit({.max_tokens = 60});
    ASSERT_TRUE(verifier_.AwaitHeldCall());
    const auto second = Submit({.max_tokens = 60});
    verifier_.Hold(false);
    EXPECT_FALSE(ReadAll(*first).end.waited_for_room);
    EXPECT_EQ(ReadAll(*second).end.waited_for_room, waited);
  }
};

TEST_F(RoomTest, ARequestThatWaitsForASlotKnowsThatTheServerWasFull) {
  ExpectSecondWaitedForRoom(/*max_running=*/1, true);
}

TEST_F(RoomTest, ARequestThatWaitsForTheEndOfAForwardFindsRoom) {
  ExpectSecondWaitedForRoom(/*max_running=*/2, false);
}

TEST_F(SchedulerTest, ALongPromptIsPrefilledWithinTheRowBudget) {
  options_.prefill_rows = 16;
  StartAndAwaitReady();
  const auto stream = Submit({.prompt = Prompt(100), .policy = "chain"});
  EXPECT_EQ(ReadAll(*stream).tokens, testing::ToyText(Prompt(100), {}, 20));
  EXPECT_THAT(verifier_.calls(), Each(Field(&SharedVerifier::Call::prompt_rows, Le(16))));
}

TEST_F(SchedulerTest, ALatencyTargetLimitsThePromptRowsOfTheForwardsOfItsRequest) {
  // The answer must not end before the verifier is held.
  verifier_.fake()->max_context = 8192;
  StartAndAwaitReady();
  // A forward of the fake takes 1 ms, and 0.01 ms per row.
  for (const absl::Duration target : {absl::Milliseconds(2), absl::InfiniteDuration()}) {
    const auto decoding = Submit({.max_tokens = 4000, .latency_target = target});
    OutputDelta first;
    ASSERT_EQ(decoding->WaitForEvent(absl::Seconds(20), first), RequestStream::Event::kDelta);
    verifier_.Hold(true);
    ASSERT_TRUE(verifier_.AwaitHeldCall());
    verifier_.ForgetCalls();
    // With a salt of its own, the prompt reuses no pages.
    const auto prompt = Submit({.prompt = Prompt(400), .cache_salt = absl::FormatDuration(target)});
    verifier_.Hold(false);
    EXPECT_EQ(ReadAll(*prompt).tokens, testing::ToyText(Prompt(400), {}, 20));
    EXPECT_TRUE(ReadAll(*decoding).status.ok());
    int most = 0;
    for (const SharedVerifier::Call& call : verifier_.calls()) {
      if (call.trees > 0) most = std::max(most, call.prompt_rows);
    }
    if (target == absl::InfiniteDuration()) {
      EXPECT_GE(most, 200);
    } else {
      EXPECT_THAT(most, AllOf(Ge(1), Le(60)));
    }
  }
}

TEST_F(SchedulerTest, ARequestIsRefusedWithARetryDelayIfTheQueueIsFull) {
  options_.max_running = 1;
  options_.max_waiting = 1;
  options_.park_after = absl::Hours(1);
  StartAndAwaitReady();
  const auto stalled = SubmitStalled();
  const auto waiting = Submit({});
  const absl::Status refused = TrySubmit({});
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_TRUE(RetryDelay(refused).has_value());
  EXPECT_EQ(scheduler_->stats().running, 1);
  EXPECT_EQ(scheduler_->stats().waiting, 1);
}

TEST_F(SchedulerTest, ACanceledRequestFreesItsSequence) {
  StartAndAwaitReady();
  const auto stream = SubmitStalled();
  EXPECT_TRUE(verifier_.AwaitLive(1));
  scheduler_->Cancel(*stream);
  EXPECT_TRUE(verifier_.AwaitLive(0));
}

TEST_F(SchedulerTest, AWaitingRequestEndsAtItsDeadline) {
  options_.max_running = 1;
  options_.park_after = absl::Hours(1);
  StartAndAwaitReady();
  const auto stalled = SubmitStalled();
  const auto waiting = Submit({.deadline = Clock::Real().Now() + absl::Milliseconds(30)});
  EXPECT_EQ(ReadAll(*waiting).status, LiveRequest::DeadlineError());
  EXPECT_EQ(scheduler_->stats().waiting, 0);
}

TEST_F(SchedulerTest, ARunningRequestEndsAtItsDeadline) {
  options_.park_after = absl::Hours(1);
  StartAndAwaitReady();
  const auto stream = Submit({.max_tokens = 400,  // More than the stream holds.
                              .deadline = Clock::Real().Now() + absl::Milliseconds(100)});
  EXPECT_TRUE(Await([&] { return !stream->status().ok(); }));
  EXPECT_EQ(stream->status(), LiveRequest::DeadlineError());
  EXPECT_EQ(verifier_.opened().size(), 1u);
  EXPECT_TRUE(verifier_.AwaitLive(0));
}

TEST_F(SchedulerTest, DrainRefusesNewRequestsAndLetsRunningOnesEnd) {
  StartAndAwaitReady();
  const auto stream = Submit({.prompt = {1}, .max_tokens = 50, .policy = "chain"});
  scheduler_->Drain(absl::Seconds(10));
  EXPECT_TRUE(absl::IsUnavailable(TrySubmit({})));
  EXPECT_EQ(ReadAll(*stream).tokens, testing::ToyText({1}, {}, 50));
}

TEST_F(SchedulerTest, TheDestructorFailsAllRequests) {
  options_.max_running = 2;
  options_.park_after = absl::ZeroDuration();
  StartAndAwaitReady();
  const auto parked = SubmitStalled();
  EXPECT_TRUE(Await([&] { return scheduler_->stats().parked == 1; }));
  verifier_.Hold(true);
  const testing::RequestSpec longer = {.max_tokens = 400};
  const auto running = Submit(longer), second = Submit(longer), waiting = Submit(longer);
  std::thread later([&] {
    absl::SleepFor(absl::Milliseconds(20));
    verifier_.Hold(false);
  });
  scheduler_.reset();
  later.join();
  for (RequestStream* stream : {parked.get(), running.get(), second.get(), waiting.get()}) {
    EXPECT_TRUE(absl::IsUnavailable(ReadAll(*stream).status));
  }
}

TEST_F(SchedulerTest, ARestartKeepsTheCalibrationOfAcceptance) {
  testing::TempFolder folder;
  const std::string path = folder.File("acceptance.safetensors");
  auto saved = AcceptanceFile::Open(path, testing::kToyVocabulary);
  ASSERT_TRUE(saved.ok()) << saved.status();
  options_.link.acceptance = &*saved;
  StartAndAwaitReady();
  EXPECT_TRUE(ReadAll(*Submit({.max_tokens = 100, .policy = "adaptive"})).status.ok());
  scheduler_.reset();

  auto loaded = AcceptanceFile::Open(path, testing::kToyVocabulary);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  SharedLearning memory;
  loaded->Restore({verifier_.Info()->model, drafter_.Info()->model}, &memory);
  ASSERT_EQ(memory.shared().size(), 1u);
  const std::vector<float> counts = memory.shared().begin()->second.draft_calibration.ToCounts();
  EXPECT_THAT(counts, Contains(Gt(0)));
}

TEST_F(SchedulerTest, IsNeverReadyIfTheVerifierHasAModelOfAnotherShape) {
  ++options_.link.dims.hidden;
  Start();
  absl::SleepFor(absl::Milliseconds(300));
  EXPECT_FALSE(scheduler_->stats().ready);
  EXPECT_TRUE(absl::IsUnavailable(TrySubmit({})));
}

TEST_F(SchedulerTest, IsNeverReadyIfTheVerifierStatesNoKvCache) {
  verifier_.fake()->kv_tokens = 0;
  Start();
  absl::SleepFor(absl::Milliseconds(300));
  EXPECT_FALSE(scheduler_->stats().ready);
}

// ---- shares ----

TEST_F(SchedulerTest, AClientWithOneRequestDoesNotWaitForTwentyOfAnother) {
  options_.max_running = 1;
  StartAndAwaitReady();
  verifier_.Hold(true);
  std::vector<std::shared_ptr<RequestStream>> streams;
  for (int i = 0; i < 20; ++i) streams.push_back(Submit({.client = "many", .seed = 1}));
  streams.push_back(Submit({.client = "one", .seed = 2}));
  verifier_.Hold(false);
  for (const auto& stream : streams) EXPECT_TRUE(ReadAll(*stream).status.ok());
  const std::vector<uint64_t> opened = verifier_.opened();
  ASSERT_EQ(opened.size(), 21u);
  EXPECT_EQ(opened[1], 2u);
}

TEST_F(SchedulerTest, TwiceThePriorityGetsTwiceTheService) {
  options_.max_running = 3;
  StartAndAwaitReady();
  verifier_.Hold(true);
  std::vector<std::shared_ptr<RequestStream>> streams;
  for (int i = 0; i < 60; ++i) {
    streams.push_back(Submit({.client = "a", .priority = 20, .seed = 20}));
    streams.push_back(Submit({.client = "b", .priority = 10, .seed = 10}));
  }
  verifier_.Hold(false);
  for (const auto& stream : streams) EXPECT_TRUE(ReadAll(*stream).status.ok());
  const std::vector<uint64_t> opened = verifier_.opened();
  const auto high = std::count(opened.begin(), opened.begin() + 75, 20u);
  EXPECT_NEAR(static_cast<double>(high), 50, 3);
}

// ---- slow readers ----

TEST_F(SchedulerTest, ASlowReaderFreesItsSlotAndContinuesWhenItReads) {
  options_.max_running = 1;
  options_.park_after = absl::Milliseconds(20);
  StartAndAwaitReady();
  const auto stalled = SubmitStalled();
  const auto other = Submit({.prompt = {3}, .max_tokens = 30, .policy = "chain"});
  EXPECT_EQ(ReadAll(*other).tokens, testing::ToyText({3}, {}, 30));
  EXPECT_TRUE(Await([&] { return scheduler_->stats().parked == 1; }));
  EXPECT_TRUE(verifier_.AwaitLive(0));
  const Answer answer = ReadAll(*stalled);
  EXPECT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(answer.tokens, testing::ToyText({1, 2}, {}, 400));
  EXPECT_TRUE(AwaitIdle());
}

TEST_F(SchedulerTest, AClientThatNeverReadsIsDropped) {
  options_.park_after = absl::Milliseconds(10);
  options_.slow_client = absl::Milliseconds(50);
  StartAndAwaitReady();
  const auto stalled = SubmitStalled();
  ASSERT_TRUE(AwaitIdle());
  EXPECT_TRUE(absl::IsResourceExhausted(ReadAll(*stalled).status));
}

TEST_F(SchedulerTest, ParkedRequestsAreLimited) {
  options_.max_waiting = 2;
  options_.park_after = absl::ZeroDuration();
  StartAndAwaitReady();
  std::vector<std::shared_ptr<RequestStream>> parked;
  for (int i = 1; i <= 2; ++i) {
    parked.push_back(SubmitStalled());
    EXPECT_TRUE(Await([&] { return scheduler_->stats().parked == i; }));
  }
  const auto third = Submit({.max_tokens = 400});
  EXPECT_TRUE(Await([&] { return !third->status().ok(); }));
  EXPECT_TRUE(absl::IsResourceExhausted(third->status())) << third->status();
  EXPECT_EQ(scheduler_->stats().parked, 2);
}

}  // namespace
}  // namespace bastion
