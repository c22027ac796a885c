// A client that read one message shortly before every --slow_client kept its slot and its memory
// for hours: each read restarted the timer. As many such clients as slots blocked the service.
#include "tests/orchestrator/schedule/scheduler_fixture.h"

namespace bastion {
namespace {

using SlowReadersKeepSlotsTest = testing::SchedulerTest;

TEST_F(SlowReadersKeepSlotsTest, StallsAddUpAndOthersAreServedMeanwhile) {
  constexpr absl::Duration kLimit = absl::Milliseconds(300);
  verifier_.fake()->max_context = 8192;
  options_.max_running = 1;
  options_.park_after = absl::Milliseconds(10);
  options_.slow_client = kLimit;
  StartAndAwaitReady();
  const auto slow = Submit({.prompt = {1, 2}, .max_tokens = 8000});
  const auto is_over = [&] { return !slow->status().ok(); };
  int reads = 0;
  OutputDelta delta;
  while (!is_over()) {
    ASSERT_LT(reads, 25) << "the client was never dropped";
    EXPECT_TRUE(Await([&] { return slow->full() || is_over(); }));
    const auto other = Submit({.prompt = {3}, .max_tokens = 30});
    EXPECT_EQ(testing::ReadAll(*other).tokens, testing::ToyText({3}, {}, 30));
    absl::SleepFor(kLimit / 6);  // Each stall alone is far below the limit.
    if (slow->WaitForEvent(absl::ZeroDuration(), delta) == RequestStream::Event::kDelta) ++reads;
  }
  EXPECT_TRUE(absl::IsResourceExhausted(slow->status())) << slow->status();
  EXPECT_TRUE(AwaitIdle());
}

}  // namespace
}  // namespace bastion
