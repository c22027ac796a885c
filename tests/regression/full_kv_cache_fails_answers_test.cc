// When the KV cache was full, the request that asked next failed with RESOURCE_EXHAUSTED in the
// middle of its answer. A draft tree could be what filled the cache.
#include "tests/orchestrator/schedule/scheduler_fixture.h"

namespace bastion {
namespace {

using FullKvCacheFailsAnswersTest = testing::SchedulerTest;

TEST_F(FullKvCacheFailsAnswersTest, RequestsThatDoNotFitTogetherAreAllComplete) {
  // 16 requests of up to 14 pages each, on 30 pages.
  verifier_.fake()->kv_tokens = 30 * testing::kToyPage;
  StartAndAwaitReady();
  std::vector<std::shared_ptr<RequestStream>> streams;
  for (int i = 0; i < 16; ++i) {
    streams.push_back(Submit(
        {.prompt = Prompt(20, i), .max_tokens = 200, .policy = i % 2 == 0 ? "ar" : "fixed:16"}));
  }
  for (int i = 0; i < 16; ++i) {
    const testing::Answer answer = testing::ReadAll(*streams[i]);
    EXPECT_TRUE(answer.status.ok()) << answer.status;
    EXPECT_EQ(answer.tokens, testing::ToyText(Prompt(20, i), {}, 200)) << i;
  }
  EXPECT_GT(scheduler_->stats().preemptions, 0);
}

}  // namespace
}  // namespace bastion
