// Tests how the scheduler reuses the prefixes of prompts.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/orchestrator/schedule/scheduler_fixture.h"

namespace bastion {
namespace {

using testing::Answer;
using ::testing::ElementsAre;
using testing::kToyPage;
using testing::ReadAll;
using testing::RequestSpec;
using testing::SharedVerifier;
using testing::ToyText;

class SchedulerPrefixTest : public testing::SchedulerTest {
 protected:
  // Runs a request to its end, and returns it. Sets prompt_rows_.
  Answer Run(const RequestSpec& spec) {
    verifier_.ForgetCalls();
    Answer answer = ReadAll(*Submit(spec));
    EXPECT_TRUE(answer.status.ok()) << answer.status;
    EXPECT_EQ(answer.tokens, ToyText(spec.prompt, {}, spec.max_tokens));
    prompt_rows_ = 0;
    for (const SharedVerifier::Call& call : verifier_.calls()) prompt_rows_ += call.prompt_rows;
    return answer;
  }

  int prompt_rows_ = 0;  // Prompt tokens that the last request computed.
};

TEST_F(SchedulerPrefixTest, OnlyTheRestOfASharedPrefixIsPrefilled) {
  StartAndAwaitReady();
  std::vector<TokenId> prompt = Prompt(100);
  EXPECT_EQ(Run({.prompt = prompt}).end.cached_prompt_tokens, 0);
  EXPECT_EQ(prompt_rows_, 99);
  prompt.insert(prompt.end(), {4, 5, 6});
  EXPECT_EQ(Run({.prompt = prompt}).end.cached_prompt_tokens, 96);
  EXPECT_EQ(prompt_rows_, 102 - 96);
}

TEST_F(SchedulerPrefixTest, AnotherSaltSharesNothing) {
  StartAndAwaitReady();
  for (const char* salt : {"alice", "bob", ""}) {
    EXPECT_EQ(Run({.prompt = Prompt(100), .cache_salt = salt}).end.cached_prompt_tokens, 0);
    EXPECT_EQ(prompt_rows_, 99);
  }
  EXPECT_EQ(Run({.prompt = Prompt(100), .cache_salt = "bob"}).end.cached_prompt_tokens, 96);
}

// The next prompt of a chat is the last one with its answer and another message.
TEST_F(SchedulerPrefixTest, TheNextTurnOfAChatReusesTheAnswerToo) {
  StartAndAwaitReady();
  std::vector<TokenId> prompt = Prompt(20);
  const Answer answer = Run({.prompt = prompt, .max_tokens = 60, .policy = "fixed:16"});
  prompt.insert(prompt.end(), answer.tokens.begin(), answer.tokens.end());
  prompt.insert(prompt.end(), {1, 2, 3});
  EXPECT_EQ(Run({.prompt = prompt}).end.cached_prompt_tokens, 64);
}

TEST_F(SchedulerPrefixTest, APromptThatIsCachedCompletelyDecodesAtOnce) {
  StartAndAwaitReady();
  const RequestSpec spec = {.prompt = Prompt(2 * kToyPage + 1), .policy = "fixed:16"};
  (void)Run(spec);
  EXPECT_EQ(Run(spec).end.cached_prompt_tokens, 2 * kToyPage);
  EXPECT_EQ(prompt_rows_, 0);
}

TEST_F(SchedulerPrefixTest, ReusedTokensAreNotChargedToTheClient) {
  options_.max_running = 1;
  StartAndAwaitReady();
  (void)Run({.client = "warm", .prompt = Prompt(400)});
  verifier_.ForgetCalls();
  verifier_.Hold(true);
  const auto blocker = Submit({.client = "blocker", .prompt = Prompt(5, 9), .seed = 1});
  ASSERT_TRUE(verifier_.AwaitHeldCall());
  std::vector<std::shared_ptr<RequestStream>> streams;
  for (const uint64_t round : {0, 2}) {
    streams.push_back(Submit({.client = "a", .prompt = Prompt(400), .seed = 2 + round}));
    streams.push_back(Submit({.client = "b", .prompt = Prompt(100, 5), .seed = 3 + round}));
  }
  verifier_.Hold(false);
  for (const auto& stream : streams) EXPECT_TRUE(ReadAll(*stream).status.ok());
  // "a" has received about 35 tokens and "b" 119 when their second requests wait.
  EXPECT_THAT(verifier_.opened(), ElementsAre(1, 2, 3, 4, 5));
}

TEST_F(SchedulerPrefixTest, RequestsWithASharedPrefixFinishUnderMemoryPressure) {
  verifier_.fake()->kv_tokens = 20 * kToyPage;
  StartAndAwaitReady();
  std::vector<RequestSpec> specs;
  std::vector<std::shared_ptr<RequestStream>> streams;
  for (int i = 0; i < 24; ++i) {
    RequestSpec spec = {.prompt = Prompt(100), .max_tokens = 60 + i, .policy = "fixed:16"};
    spec.prompt.push_back(i);
    streams.push_back(Submit(spec));
    specs.push_back(spec);
  }
  for (size_t i = 0; i < specs.size(); ++i) {
    const Answer answer = ReadAll(*streams[i]);
    EXPECT_TRUE(answer.status.ok()) << answer.status;
    EXPECT_EQ(answer.tokens, ToyText(specs[i].prompt, {}, specs[i].max_tokens));
  }
  EXPECT_TRUE(AwaitIdle());
  EXPECT_TRUE(AwaitFreeTokens(20 * kToyPage));
}

}  // namespace
}  // namespace bastion
