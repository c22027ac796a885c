// While the scheduler waited for a verifier that did not answer, requests whose clients had left
// counted as running. A shutdown waited for them for the whole grace period.
#include "tests/orchestrator/schedule/scheduler_fixture.h"

namespace bastion {
namespace {

using CanceledRequestsHoldShutdownTest = testing::SchedulerTest;

TEST_F(CanceledRequestsHoldShutdownTest, CanceledRequestsLeaveWhileTheVerifierIsSilent) {
  StartAndAwaitReady();
  verifier_.Hold(true);
  const auto first = Submit({.max_tokens = 200});
  const auto second = Submit({.prompt = {2}, .max_tokens = 200});
  ASSERT_TRUE(verifier_.AwaitHeldCall());
  scheduler_->Cancel(*first);
  scheduler_->Cancel(*second);
  const SchedulerStats stats = scheduler_->stats();
  EXPECT_EQ(stats.running + stats.waiting, 0);
  const absl::Time began = absl::Now();
  scheduler_->Drain(absl::Seconds(30));
  EXPECT_LT(absl::Now() - began, absl::Seconds(15));
  verifier_.Hold(false);
}

}  // namespace
}  // namespace bastion
