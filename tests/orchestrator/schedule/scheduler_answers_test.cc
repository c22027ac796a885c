// Tests calls for several answers to one prompt.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/orchestrator/schedule/scheduler_fixture.h"

namespace bastion {
namespace {

using ::testing::ElementsAre;
using testing::RequestSpec;
using testing::SharedVerifier;
using testing::ToyText;

// All answers of one call.
struct Answers {
  std::vector<std::vector<TokenId>> tokens;
  std::vector<OutputEnd> ends;
  absl::Status status;
};

class SchedulerAnswersTest : public testing::SchedulerTest {
 protected:
  static Answers ReadAnswers(RequestStream& stream, int count) {
    Answers answers;
    answers.tokens.resize(count);
    answers.ends.resize(count);
    OutputDelta delta;
    RequestStream::Event event;
    while ((event = stream.WaitForEvent(absl::Seconds(20), delta)) ==
           RequestStream::Event::kDelta) {
      std::vector<TokenId>& tokens = answers.tokens[delta.answer];
      tokens.insert(tokens.end(), delta.tokens.begin(), delta.tokens.end());
      if (delta.end) answers.ends[delta.answer] = *delta.end;
    }
    answers.status = event == RequestStream::Event::kEnd ? stream.status()
                                                         : absl::DeadlineExceededError("no event");
    return answers;
  }
  Answers Run(const RequestSpec& spec) { return ReadAnswers(*Submit(spec), spec.answers); }
  // All answers have the text of a request alone. At temperature 0, the seed does not change it.
  static void ExpectComplete(const Answers& answers, const RequestSpec& spec) {
    ASSERT_TRUE(answers.status.ok()) << answers.status;
    for (int i = 0; i < spec.answers; ++i) {
      EXPECT_EQ(answers.tokens[i], ToyText(spec.prompt, {}, spec.max_tokens));
      EXPECT_EQ(answers.ends[i].seed, spec.seed + i);
    }
  }
  int PromptRows() {
    int rows = 0;
    for (const SharedVerifier::Call& call : verifier_.calls()) rows += call.prompt_rows;
    return rows;
  }
};

TEST_F(SchedulerAnswersTest, AStopStringThatIsATokenIsNamed) {
  StartAndAwaitReady();
  RequestSpec spec;
  const TokenId third = ToyText(spec.prompt, {}, 3).back();
  spec.special_stops = {{third, "<|stop|>"}};
  const Answers answers = Run(spec);
  ASSERT_TRUE(answers.status.ok()) << answers.status;
  EXPECT_EQ(answers.tokens[0].back(), third);
  EXPECT_LE(answers.tokens[0].size(), 3u);
  EXPECT_EQ(answers.ends[0].reason, FinishReason::kStopToken);
  EXPECT_EQ(answers.ends[0].stop_string, "<|stop|>");
}

TEST_F(SchedulerAnswersTest, ThePromptIsPrefilledOnce) {
  StartAndAwaitReady();
  for (const char* policy : {"ar", "fixed:16"}) {
    verifier_.ForgetCalls();
    const RequestSpec spec = {
        .prompt = Prompt(100), .policy = policy, .seed = 7, .cache_salt = policy, .answers = 4};
    const Answers answers = Run(spec);
    ExpectComplete(answers, spec);
    EXPECT_EQ(answers.ends[0].cached_prompt_tokens, 0);
    for (int i = 1; i < 4; ++i) EXPECT_EQ(answers.ends[i].cached_prompt_tokens, 96);
    EXPECT_EQ(PromptRows(), 99 + 3 * (99 - 96));
    EXPECT_THAT(verifier_.opened(), ElementsAre(7, 8, 9, 10));
  }
  EXPECT_TRUE(AwaitIdle());
}

TEST_F(SchedulerAnswersTest, ShortPromptsAndAnswersLoseNoAnswer) {
  StartAndAwaitReady();
  for (const int prompt : {1, 2, 17}) {
    for (const int max_tokens : {1, 2}) {
      const RequestSpec spec = {.prompt = Prompt(prompt), .max_tokens = max_tokens, .answers = 3};
      ExpectComplete(Run(spec), spec);
    }
  }
  EXPECT_TRUE(AwaitIdle());
}

TEST_F(SchedulerAnswersTest, AnswersTakeTurnsIfSlotsAreFew) {
  options_.max_running = 1;
  options_.max_waiting = 1;
  StartAndAwaitReady();
  const RequestSpec spec = {.prompt = Prompt(40), .answers = 5};
  ExpectComplete(Run(spec), spec);
}

TEST_F(SchedulerAnswersTest, AnswersFinishUnderMemoryPressure) {
  verifier_.fake()->kv_tokens = 16 * testing::kToyPage;
  StartAndAwaitReady();
  const RequestSpec spec = {
      .prompt = Prompt(60), .max_tokens = 150, .policy = "fixed:16", .answers = 8};
  ExpectComplete(Run(spec), spec);
  EXPECT_GT(scheduler_->stats().preemptions, 0);
  EXPECT_TRUE(AwaitIdle());
  EXPECT_TRUE(AwaitFreeTokens(16 * testing::kToyPage));
}

TEST_F(SchedulerAnswersTest, ACancelEndsAllAnswers) {
  StartAndAwaitReady();
  const auto stream = Submit({.max_tokens = 100000, .answers = 6});
  ASSERT_TRUE(verifier_.AwaitLive(6));
  scheduler_->Cancel(*stream);
  EXPECT_TRUE(AwaitIdle());
  EXPECT_TRUE(verifier_.AwaitLive(0));
}

TEST_F(SchedulerAnswersTest, ALostVerifierEndsTheCallWithOneError) {
  options_.verifier_patience = absl::Milliseconds(50);
  StartAndAwaitReady();
  const auto stream = Submit({.max_tokens = 100000, .answers = 6});
  ASSERT_TRUE(verifier_.AwaitLive(6));
  verifier_.SetUnavailable(true);
  EXPECT_TRUE(absl::IsUnavailable(ReadAnswers(*stream, 6).status));
  EXPECT_TRUE(AwaitIdle());
}

TEST_F(SchedulerAnswersTest, AnExceptionAfterTheEndOfTheFirstAnswerLosesNoOtherOne) {
  StartAndAwaitReady();
  ThrowAfterForwardOfTwo();
  const RequestSpec spec = {.prompt = {2}, .max_tokens = 1, .answers = 3};
  const RequestSpec longer_spec = {.prompt = {3}, .max_tokens = 30};
  std::shared_ptr<RequestStream> stream, longer;
  SubmitTogether([&] {
    stream = Submit(spec);
    longer = SubmitClocked(longer_spec);
  });
  ExpectComplete(ReadAnswers(*stream, spec.answers), spec);
  ExpectComplete(ReadAnswers(*longer, 1), longer_spec);
  EXPECT_TRUE(AwaitIdle());
}

TEST_F(SchedulerAnswersTest, AnAnswerThatFillsTheKvCacheEndsTheOthers) {
  verifier_.fake()->kv_tokens = 4 * testing::kToyPage;
  StartAndAwaitReady();
  const Answers answers = Run({.prompt = Prompt(10), .max_tokens = 1000, .answers = 2});
  EXPECT_TRUE(absl::IsResourceExhausted(answers.status)) << answers.status;
  EXPECT_TRUE(AwaitIdle());
  EXPECT_TRUE(AwaitFreeTokens(4 * testing::kToyPage));
}

}  // namespace
}  // namespace bastion
