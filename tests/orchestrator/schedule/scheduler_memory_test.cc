// Tests how the scheduler shares the KV cache.
#include <random>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/orchestrator/schedule/scheduler_fixture.h"

namespace bastion {
namespace {

using testing::Answer;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::kToyPage;
using testing::ReadAll;
using testing::RequestSpec;
using testing::SharedVerifier;
using testing::ToyText;

class SchedulerMemoryTest : public testing::SchedulerTest {
 protected:
  // Starts with a KV cache of `pages` pages.
  void StartWithPages(int pages) {
    verifier_.fake()->kv_tokens = pages * kToyPage;
    StartAndAwaitReady();
  }
  void ExpectText(RequestStream& stream, const RequestSpec& spec) {
    const Answer answer = ReadAll(stream);
    EXPECT_TRUE(answer.status.ok()) << answer.status;
    EXPECT_EQ(answer.tokens, ToyText(spec.prompt, {}, spec.max_tokens));
  }
};

// ---- requests that do not fit ----

TEST_F(SchedulerMemoryTest, APromptThatNeverFitsIsRefusedAtOnce) {
  StartWithPages(4);
  const absl::Status refused = TrySubmit({.prompt = Prompt(4 * kToyPage + 1)});
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("holds 64"));
}

TEST_F(SchedulerMemoryTest, ADefaultLengthIsLimitedToTheCapacity) {
  StartWithPages(4);
  const auto prompt = Prompt(10);
  const auto stream = Submit({.prompt = prompt, .max_tokens = 500, .default_max_tokens = true});
  const Answer answer = ReadAll(*stream);
  EXPECT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(answer.end.reason, FinishReason::kLength);
  EXPECT_EQ(answer.tokens, ToyText(prompt, {}, 4 * kToyPage - 10 + 1));
}

TEST_F(SchedulerMemoryTest, ARequestThatAloneFillsTheCacheEndsWithItsCapacity) {
  StartWithPages(4);
  const auto stream = Submit({.prompt = Prompt(10), .max_tokens = 500});
  const Answer answer = ReadAll(*stream);
  EXPECT_TRUE(absl::IsResourceExhausted(answer.status)) << answer.status;
  EXPECT_THAT(std::string(answer.status.message()), HasSubstr("holds 64 tokens"));
  EXPECT_EQ(answer.tokens, ToyText(Prompt(10), {}, 4 * kToyPage - 10 + 1));
  EXPECT_EQ(scheduler_->stats().preemptions, 0);
  EXPECT_TRUE(AwaitIdle());
}

TEST_F(SchedulerMemoryTest, SpeculationFailsNoRequestThatPlainDecodingFinishes) {
  StartWithPages(4);
  for (const char* policy : {"ar", "chain", "fixed:16"}) {
    // The last token is not stored, so this fills the cache exactly.
    const RequestSpec spec = {
        .prompt = Prompt(10), .max_tokens = 4 * kToyPage - 10 + 1, .policy = policy};
    ExpectText(*Submit(spec), spec);
  }
}

// ---- admission ----

TEST_F(SchedulerMemoryTest, ARequestWaitsUntilItsPromptFitsAndIsNotOvertaken) {
  StartWithPages(20);
  verifier_.Hold(true);
  const RequestSpec first = {.prompt = Prompt(100), .max_tokens = 150, .seed = 1};
  const RequestSpec big = {.client = "big", .prompt = Prompt(250), .max_tokens = 5, .seed = 2};
  const RequestSpec small = {.client = "small", .prompt = Prompt(5), .max_tokens = 5, .seed = 3};
  const auto stream = Submit(first);
  ASSERT_TRUE(Await([&] { return verifier_.opened().size() == 1; }));
  const auto big_stream = Submit(big);
  std::vector<std::shared_ptr<RequestStream>> streams;
  for (int i = 0; i < 10; ++i) streams.push_back(Submit(small));
  verifier_.Hold(false);
  ExpectText(*stream, first);
  ExpectText(*big_stream, big);
  for (const auto& one : streams) ExpectText(*one, small);
  EXPECT_EQ(verifier_.opened()[1], 2u);
  EXPECT_EQ(scheduler_->stats().preemptions, 0);
}

TEST_F(SchedulerMemoryTest, APromptIsPrefilledAloneIfTreesLeaveItNoPages) {
  StartWithPages(16);
  verifier_.Hold(true);
  // 2 pages, and 2 more for each tree.
  const RequestSpec trees = {.prompt = Prompt(20, 1), .max_tokens = 60, .policy = "fixed:32"};
  const RequestSpec prompt = {.prompt = Prompt(200, 2), .max_tokens = 5};  // 13 pages.
  const auto trees_stream = Submit(trees);
  ASSERT_TRUE(verifier_.AwaitHeldCall());
  const auto prompt_stream = Submit(prompt);
  verifier_.Hold(false);
  ExpectText(*prompt_stream, prompt);
  ExpectText(*trees_stream, trees);
  EXPECT_EQ(scheduler_->stats().preemptions, 0);
  const std::vector<SharedVerifier::Call> calls = verifier_.calls();
  const auto starved = std::find_if(calls.begin(), calls.end(), [](const auto& call) {
    return call.trees == 1 && call.prompt_rows == 199;
  });
  ASSERT_LT(starved - calls.begin() + 1, static_cast<ptrdiff_t>(calls.size()));
  EXPECT_EQ(starved[1].trees, 0);
  EXPECT_EQ(starved[1].prompt_rows, 199);
  EXPECT_EQ(starved[2].trees, 2) << "both decode from now on";
}

TEST_F(SchedulerMemoryTest, AllPagesAreFreeWhenAllRequestsHaveEnded) {
  StartWithPages(40);
  std::vector<std::shared_ptr<RequestStream>> streams;
  for (int i = 0; i < 8; ++i) streams.push_back(Submit({.prompt = Prompt(30, i)}));
  for (const auto& stream : streams) EXPECT_TRUE(ReadAll(*stream).status.ok());
  EXPECT_TRUE(AwaitIdle());
  EXPECT_TRUE(AwaitFreeTokens(40 * kToyPage));
}

TEST_F(SchedulerMemoryTest, ARequestWaitsForThePagesOfAnotherOrchestrator) {
  StartWithPages(8);
  const SequenceId foreign = {1, 0};
  ASSERT_TRUE(verifier_.Open(foreign, {}).ok());
  ASSERT_TRUE(verifier_.Prefill({foreign, 0, Prompt(6 * kToyPage)}).ok());
  const RequestSpec spec = {.prompt = Prompt(20), .max_tokens = 60};
  const auto stream = Submit(spec);
  // It stores 12 tokens of the output, and then tries again and again.
  ASSERT_TRUE(Await([&] { return verifier_.calls().size() > 25; }));
  const size_t calls = verifier_.calls().size();
  absl::SleepFor(absl::Milliseconds(320));
  EXPECT_LT(verifier_.calls().size() - calls, 20u)
      << "each try takes time from other orchestrators";
  verifier_.Close(foreign);
  ExpectText(*stream, spec);
}

TEST_F(SchedulerMemoryTest, ARequestThatIsRefusedAlthoughPagesAreFreeFails) {
  StartWithPages(16);
  verifier_.RefuseAll(true);
  std::vector<std::shared_ptr<RequestStream>> streams = {Submit({.prompt = Prompt(1)}),
                                                         Submit({.prompt = Prompt(40)})};
  for (const auto& stream : streams) {
    const Answer answer = ReadAll(*stream);
    EXPECT_TRUE(absl::IsInternal(answer.status)) << answer.status;
    EXPECT_THAT(std::string(answer.status.message()), HasSubstr("the device is full"));
  }
  verifier_.RefuseAll(false);
  const RequestSpec spec = {.prompt = Prompt(40)};
  ExpectText(*Submit(spec), spec);
}

// ---- preemption ----

// Sets the clock forward by an hour when a request is preempted.
class LatePreemption final : public ServingObserver {
 public:
  explicit LatePreemption(testing::ControlledClock* clock) : clock_(clock) {}
  void OnCycle(const CycleSummary&, const ServedCycle&) override {}
  void OnEnd(const LiveRequest&, const absl::Status&) override {}
  void OnPreemption(const LiveRequest&) override { clock_->SkipHour(); }

 private:
  testing::ControlledClock* const clock_;
};

TEST_F(SchedulerMemoryTest, TimeInTheQueueAfterAPreemptionIsNoStall) {
  options_.park_after = absl::InfiniteDuration();
  LatePreemption observer(&clock_);
  observer_ = &observer;
  StartWithPages(30);
  // Its stream is full with 258 tokens in 17 pages.
  const RequestSpec stalled = {.client = "a", .priority = 5, .prompt = {1, 2}, .max_tokens = 400};
  const auto stalled_stream = SubmitClocked(stalled);
  ASSERT_TRUE(Await([&] { return stalled_stream->full(); }));
  // 20 pages.
  const RequestSpec high = {
      .client = "b", .priority = 50, .prompt = Prompt(20), .max_tokens = 300, .policy = "fixed:8"};
  ExpectText(*Submit(high), high);
  EXPECT_EQ(scheduler_->stats().preemptions, 1);
  ExpectText(*stalled_stream, stalled);
  scheduler_.reset();
}

TEST_F(SchedulerMemoryTest, TheYoungestRequestIsPreemptedAndContinuesWithTheSameText) {
  StartWithPages(16);
  verifier_.Hold(true);
  const RequestSpec old = {.prompt = Prompt(20, 1), .max_tokens = 180, .seed = 1};
  const RequestSpec young = {.prompt = Prompt(20, 2), .max_tokens = 180, .seed = 2};
  const auto old_stream = Submit(old), young_stream = Submit(young);
  verifier_.Hold(false);
  ExpectText(*old_stream, old);
  ExpectText(*young_stream, young);
  // The old one is opened once: it is never preempted.
  EXPECT_THAT(verifier_.opened(), ElementsAre(1, 2, 2));
  EXPECT_EQ(scheduler_->stats().preemptions, 1);
}

TEST_F(SchedulerMemoryTest, ALowerPriorityIsPreemptedFirst) {
  StartWithPages(16);
  verifier_.Hold(true);
  const RequestSpec low = {
      .client = "a", .priority = 5, .prompt = Prompt(20, 1), .max_tokens = 180, .seed = 1};
  const RequestSpec high = {
      .client = "b", .priority = 50, .prompt = Prompt(20, 2), .max_tokens = 180, .seed = 2};
  const auto low_stream = Submit(low);
  ASSERT_TRUE(Await([&] { return verifier_.opened().size() == 1; }));
  const auto high_stream = Submit(high);
  verifier_.Hold(false);
  ExpectText(*high_stream, high);
  ExpectText(*low_stream, low);
  EXPECT_THAT(verifier_.opened(), ElementsAre(1, 2, 1));
}

TEST_F(SchedulerMemoryTest, APreemptedRequestReturnsBeforeNewOnes) {
  options_.max_running = 2;
  StartWithPages(16);
  verifier_.Hold(true);
  const RequestSpec old = {.prompt = Prompt(20, 1), .max_tokens = 180, .seed = 1};
  const RequestSpec young = {.prompt = Prompt(20, 2), .max_tokens = 180, .seed = 2};
  const RequestSpec later = {.max_tokens = 5, .seed = 3};
  std::vector<std::shared_ptr<RequestStream>> streams = {Submit(old), Submit(young)};
  for (int i = 0; i < 3; ++i) streams.push_back(Submit(later));
  verifier_.Hold(false);
  for (const auto& stream : streams) EXPECT_TRUE(ReadAll(*stream).status.ok());
  EXPECT_THAT(verifier_.opened(), ElementsAre(1, 2, 2, 3, 3, 3));
}

TEST_F(SchedulerMemoryTest, TheOldestRequestAlwaysMakesProgress) {
  // Every request needs 13 of 14 pages in the end, so all of them collide again and again. They end
  // in the order of their admission, and the oldest of those that run is never opened again.
  StartWithPages(14);
  verifier_.Hold(true);
  constexpr uint64_t kRequests = 12;
  std::vector<RequestSpec> specs;
  std::vector<std::shared_ptr<RequestStream>> streams;
  for (uint64_t i = 0; i < kRequests; ++i) {
    specs.push_back({.prompt = Prompt(8, static_cast<int>(i)), .max_tokens = 195, .seed = i});
    streams.push_back(Submit(specs.back()));
  }
  verifier_.Hold(false);
  for (uint64_t i = 0; i < kRequests; ++i) ExpectText(*streams[i], specs[i]);
  const std::vector<uint64_t> opened = verifier_.opened();
  EXPECT_EQ(std::count(opened.begin(), opened.end(), 0u), 1);
  EXPECT_GT(scheduler_->stats().preemptions, 0);
  for (uint64_t i = 0; i < kRequests; ++i) {
    // A request can be preempted only by older ones, once per page that they take.
    EXPECT_LE(std::count(opened.begin(), opened.end(), i), static_cast<int64_t>(1 + 14 * i)) << i;
  }
}

TEST_F(SchedulerMemoryTest, ACacheOfAFifthOfTheDemandFailsNoRequest) {
  constexpr int kRequests = 100, kMaxPrompt = 120, kMaxOutput = 150;
  const std::vector<const char*> policies = {"ar", "chain", "fixed:16", "adaptive", "beam:4x4"};
  std::mt19937 dice(18);
  const auto roll = [&dice](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(dice);
  };
  std::vector<RequestSpec> specs;
  int demand = 0;
  for (int i = 0; i < kRequests; ++i) {
    RequestSpec spec = {.client = std::to_string(i % 7),
                        .priority = roll(1, 100),
                        .prompt = Prompt(roll(1, kMaxPrompt), i),
                        .max_tokens = roll(1, kMaxOutput),
                        .policy = policies[i % policies.size()]};
    demand += static_cast<int>(spec.prompt.size()) + spec.max_tokens;
    specs.push_back(std::move(spec));
  }
  // A fifth of the demand of the 16 requests that run together.
  StartWithPages(demand * 16 / kRequests / 5 / kToyPage);
  std::vector<std::shared_ptr<RequestStream>> streams;
  for (RequestSpec& spec : specs) {
    const bool expires = roll(1, 10) == 1;
    if (expires) spec.deadline = Clock::Real().Now() + absl::Milliseconds(roll(1, 300));
    streams.push_back(Submit(spec));
  }
  std::vector<bool> canceled(kRequests, false);
  for (int i = 0; i < kRequests; i += roll(3, 12)) {
    absl::SleepFor(absl::Milliseconds(roll(0, 10)));
    scheduler_->Cancel(*streams[i]);
    canceled[i] = true;
  }
  int complete = 0;
  for (int i = 0; i < kRequests; ++i) {
    const Answer answer = ReadAll(*streams[i]);
    const std::vector<TokenId> text = ToyText(specs[i].prompt, {}, specs[i].max_tokens);
    if (answer.status.ok()) {
      EXPECT_EQ(answer.tokens, text) << i;
      ++complete;
    } else if (canceled[i]) {
      EXPECT_TRUE(absl::IsCancelled(answer.status)) << i << ": " << answer.status;
    } else {
      EXPECT_EQ(answer.status, LiveRequest::DeadlineError()) << i;
      EXPECT_LT(specs[i].deadline, absl::InfiniteDuration()) << i;
    }
    // What was sent before the end is part of the text.
    ASSERT_LE(answer.tokens.size(), text.size());
    EXPECT_TRUE(std::equal(answer.tokens.begin(), answer.tokens.end(), text.begin())) << i;
  }
  EXPECT_GT(complete, kRequests / 2);
  EXPECT_TRUE(AwaitIdle());
  EXPECT_TRUE(verifier_.AwaitLive(0));
  EXPECT_TRUE(AwaitFreeTokens(verifier_.fake()->kv_tokens / kToyPage * kToyPage));
  EXPECT_GT(scheduler_->stats().preemptions, 0);
}

}  // namespace
}  // namespace bastion
