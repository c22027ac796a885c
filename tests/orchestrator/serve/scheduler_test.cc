#include "orchestrator/serve/scheduler.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fake_stages.h"
#include "tests/support/hub_fixtures.h"

namespace bastion {
namespace {

using ::testing::HasSubstr;

// A fake verifier that the test can inspect and make unavailable while the scheduler's thread uses
// it.
class SharedVerifier final : public Verifier {
 public:
  absl::StatusOr<TargetInfo> Info() override {
    MutexLock lock(&mutex_);
    if (unavailable_) return absl::UnavailableError("connection refused");
    return fake_.Info();
  }
  absl::Status Open(SequenceId sequence, const SamplingParams& sampling) override {
    MutexLock lock(&mutex_);
    return fake_.Open(sequence, sampling);
  }
  absl::StatusOr<TimingTrace> Prefill(const PrefillItem& item) override {
    MutexLock lock(&mutex_);
    return fake_.Prefill(item);
  }
  absl::StatusOr<VerifyResult> Verify(const Forest& forest) override {
    MutexLock lock(&mutex_);
    if (unavailable_) return absl::UnavailableError("the stream broke");
    return fake_.Verify(forest);
  }
  void Close(SequenceId sequence) override {
    MutexLock lock(&mutex_);
    fake_.Close(sequence);
  }

  void SetUnavailable(bool unavailable) {
    MutexLock lock(&mutex_);
    unavailable_ = unavailable;
  }
  // Waits until there are `sequences` open sequences; false after 10 seconds.
  bool AwaitLive(int sequences) {
    const auto reached = [&] { return fake_.live_sequences() == sequences; };
    MutexLock lock(&mutex_);
    return mutex_.AwaitWithTimeout(reached, absl::Seconds(10));
  }
  const testing::FakeVerifier* fake() const { return &fake_; }

 private:
  Mutex mutex_;
  testing::FakeVerifier fake_;
  bool unavailable_ = false;
};

// All events of one request.
struct Answer {
  std::vector<TokenId> tokens;
  absl::Status status;
  OutputEnd end;
};

Answer ReadAll(RequestStream& stream) {
  Answer answer;
  OutputDelta delta;
  for (;;) {
    switch (stream.WaitForEvent(absl::Seconds(10), delta)) {
      case RequestStream::Event::kTimeout:
        answer.status = absl::DeadlineExceededError("no event");
        return answer;
      case RequestStream::Event::kDelta:
        answer.tokens.insert(answer.tokens.end(), delta.tokens.begin(), delta.tokens.end());
        break;
      case RequestStream::Event::kEnd:
        answer.status = stream.status();
        answer.end = stream.end();
        return answer;
    }
  }
}

class SchedulerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.vocabulary = testing::kToyVocabulary;
    options_.calibration_limit = absl::Seconds(1);
  }

  void Start() {
    scheduler_ = std::make_unique<Scheduler>(options_, &verifier_, &drafter_, [](bool) {});
  }
  bool AwaitReady(bool ready) {
    for (int i = 0; i < 2000; ++i) {
      if (scheduler_->stats().ready == ready) return true;
      absl::SleepFor(absl::Milliseconds(5));
    }
    return false;
  }
  void StartAndAwaitReady() {
    Start();
    ASSERT_TRUE(AwaitReady(true));
  }

  std::unique_ptr<LiveRequest> Request(const std::vector<TokenId>& prompt, int max_tokens,
                                       const char* policy) {
    PreparedRequest request{"request", {}, *Policy::Parse(policy), *StopStrings::Create({})};
    request.decode.prompt = prompt;
    request.decode.max_tokens = max_tokens;
    request.decode.max_nodes = 32;
    return std::make_unique<LiveRequest>(std::move(request), &tokenizer_, &Clock::Real());
  }
  // Submits a request whose client reads nothing. Returns when its stream is full.
  std::shared_ptr<RequestStream> SubmitStalled() {
    auto request = Request({1, 2}, 400, "ar");
    auto stream = request->stream();
    EXPECT_TRUE(scheduler_->Submit(std::move(request)).ok());
    for (int i = 0; i < 2000 && !stream->full(); ++i) absl::SleepFor(absl::Milliseconds(5));
    EXPECT_TRUE(stream->full());
    return stream;
  }

  hub::Tokenizer tokenizer_ = testing::LoadTokenizer(testing::ByteLevelTokenizerJson());
  SchedulerOptions options_;
  SharedVerifier verifier_;
  testing::FakeDrafter drafter_{verifier_.fake()};
  std::unique_ptr<Scheduler> scheduler_;
};

TEST_F(SchedulerTest, ConcurrentRequestsGetTheTextOfPlainDecoding) {
  StartAndAwaitReady();
  const std::vector<std::pair<std::vector<TokenId>, const char*>> cases = {
      {{1, 2, 3}, "ar"}, {{4}, "chain"}, {{5, 6}, "fixed:8"}, {{7, 8, 9}, "adaptive"}};
  std::vector<std::shared_ptr<RequestStream>> streams;
  for (const auto& [prompt, policy] : cases) {
    auto request = Request(prompt, 60, policy);
    streams.push_back(request->stream());
    ASSERT_TRUE(scheduler_->Submit(std::move(request)).ok());
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

TEST_F(SchedulerTest, ALongPromptIsPrefilledInChunks) {
  options_.prefill_chunk = 16;
  StartAndAwaitReady();
  std::vector<TokenId> prompt(100);
  for (int i = 0; i < 100; ++i) prompt[i] = i % testing::kToyVocabulary;
  auto request = Request(prompt, 20, "chain");
  const auto stream = request->stream();
  ASSERT_TRUE(scheduler_->Submit(std::move(request)).ok());
  EXPECT_EQ(ReadAll(*stream).tokens, testing::ToyText(prompt, {}, 20));
}

TEST_F(SchedulerTest, ARequestIsRefusedIfTheQueueIsFull) {
  options_.max_running = 1;
  options_.max_waiting = 1;
  StartAndAwaitReady();
  const auto stalled = SubmitStalled();
  ASSERT_TRUE(scheduler_->Submit(Request({3}, 5, "ar")).ok());
  const absl::Status refused = scheduler_->Submit(Request({4}, 5, "ar"));
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_EQ(scheduler_->stats().running, 1);
  EXPECT_EQ(scheduler_->stats().waiting, 1);
}

TEST_F(SchedulerTest, AStalledClientIsDroppedAndOthersAreServed) {
  options_.slow_client = absl::Milliseconds(50);
  StartAndAwaitReady();
  const auto stalled = SubmitStalled();
  auto request = Request({3}, 30, "chain");
  const auto stream = request->stream();
  ASSERT_TRUE(scheduler_->Submit(std::move(request)).ok());
  EXPECT_EQ(ReadAll(*stream).tokens, testing::ToyText({3}, {}, 30));
  ASSERT_TRUE(verifier_.AwaitLive(0));
  const Answer dropped = ReadAll(*stalled);
  EXPECT_TRUE(absl::IsResourceExhausted(dropped.status)) << dropped.status;
}

TEST_F(SchedulerTest, ACanceledRequestFreesItsSequence) {
  StartAndAwaitReady();
  const auto stream = SubmitStalled();
  EXPECT_TRUE(verifier_.AwaitLive(1));
  stream->Cancel();
  EXPECT_TRUE(verifier_.AwaitLive(0));
}

TEST_F(SchedulerTest, ALostVerifierFailsRunningRequestsAndServingResumesWhenItReturns) {
  StartAndAwaitReady();
  auto interrupted = Request({1}, 100000, "ar");
  const auto stream = interrupted->stream();
  ASSERT_TRUE(scheduler_->Submit(std::move(interrupted)).ok());
  OutputDelta first;
  ASSERT_EQ(stream->WaitForEvent(absl::Seconds(10), first), RequestStream::Event::kDelta);
  verifier_.SetUnavailable(true);
  const Answer answer = ReadAll(*stream);
  EXPECT_TRUE(absl::IsUnavailable(answer.status)) << answer.status;
  EXPECT_THAT(std::string(answer.status.message()),
              HasSubstr("the connection to the verifier was lost"));
  ASSERT_TRUE(AwaitReady(false));
  EXPECT_TRUE(absl::IsUnavailable(scheduler_->Submit(Request({2}, 5, "ar"))));

  verifier_.SetUnavailable(false);
  ASSERT_TRUE(AwaitReady(true));
  auto again = Request({2}, 5, "ar");
  const auto again_stream = again->stream();
  ASSERT_TRUE(scheduler_->Submit(std::move(again)).ok());
  EXPECT_EQ(ReadAll(*again_stream).tokens, testing::ToyText({2}, {}, 5));
}

TEST_F(SchedulerTest, DrainRefusesNewRequestsAndLetsRunningOnesEnd) {
  StartAndAwaitReady();
  auto live = Request({1}, 50, "chain");
  const auto stream = live->stream();
  ASSERT_TRUE(scheduler_->Submit(std::move(live)).ok());
  scheduler_->Drain(absl::Seconds(10));
  EXPECT_TRUE(absl::IsUnavailable(scheduler_->Submit(Request({2}, 5, "ar"))));
  EXPECT_EQ(ReadAll(*stream).tokens, testing::ToyText({1}, {}, 50));
}

TEST_F(SchedulerTest, TheDestructorFailsRunningRequests) {
  StartAndAwaitReady();
  const auto stream = SubmitStalled();
  scheduler_.reset();
  EXPECT_TRUE(absl::IsUnavailable(ReadAll(*stream).status));
}

TEST_F(SchedulerTest, IsNeverReadyIfTheVerifierHasAnotherVocabulary) {
  options_.vocabulary = testing::kToyVocabulary + 1;
  Start();
  absl::SleepFor(absl::Milliseconds(300));
  EXPECT_FALSE(scheduler_->stats().ready);
  EXPECT_TRUE(absl::IsUnavailable(scheduler_->Submit(Request({1}, 5, "ar"))));
}

}  // namespace
}  // namespace bastion
