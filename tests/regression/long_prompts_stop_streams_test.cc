// Every loop prefilled one chunk of each waiting prompt. With 15 long prompts, 15 chunks ran
// between two tokens of every stream.
#include <algorithm>

#include "tests/orchestrator/schedule/scheduler_fixture.h"

namespace bastion {
namespace {

using LongPromptsStopStreamsTest = testing::SchedulerTest;

TEST_F(LongPromptsStopStreamsTest, EveryForwardDecodesAndStaysWithinTheRowBudget) {
  constexpr int kPrompts = 15, kLength = 2000, kBudget = 100;
  verifier_.fake()->max_context = 4096;
  verifier_.fake()->kv_tokens = (kPrompts + 1) * 2200;
  options_.prefill_rows = kBudget;
  StartAndAwaitReady();
  const auto decoding = Submit({.prompt = {1}, .max_tokens = 1000});
  OutputDelta delta;
  ASSERT_EQ(decoding->WaitForEvent(absl::Seconds(10), delta), RequestStream::Event::kDelta);
  verifier_.Hold(true);
  std::vector<std::shared_ptr<RequestStream>> streams;
  for (int i = 0; i < kPrompts; ++i) {
    streams.push_back(Submit({.prompt = Prompt(kLength, i), .max_tokens = 1}));
  }
  verifier_.Hold(false);
  // The client of the decoding request reads, so it can decode in every forward.
  EXPECT_TRUE(Await([&] {
    (void)decoding->WaitForEvent(absl::ZeroDuration(), delta);
    return scheduler_->stats().running <= 1 && scheduler_->stats().waiting == 0;
  }));
  int prompt_rows = 0, largest = 0;
  for (const testing::SharedVerifier::Call& call : verifier_.calls()) {
    prompt_rows += call.prompt_rows;
    largest = std::max(largest, call.prompt_rows);
    EXPECT_GE(call.trees, 1) << "a forward without the decoding request";
  }
  EXPECT_EQ(prompt_rows, kPrompts * (kLength - 1));
  EXPECT_EQ(largest, kBudget);
  for (const auto& stream : streams) EXPECT_TRUE(testing::ReadAll(*stream).status.ok());
}

}  // namespace
}  // namespace bastion
