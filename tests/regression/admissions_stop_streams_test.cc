// The scheduler admitted all waiting requests in one loop. Each long prompt takes milliseconds, so
// fifteen of them stopped a running request for 98 ms.
#include <algorithm>

#include "tests/orchestrator/schedule/scheduler_fixture.h"

namespace bastion {
namespace {

using AdmissionsStopStreamsTest = testing::SchedulerTest;

TEST_F(AdmissionsStopStreamsTest, SlowAdmissionsAreSpreadOverForwards) {
  constexpr int kWaiting = 8;
  StartAndAwaitReady();
  const auto decoding = Submit({.prompt = {1}, .max_tokens = 1000});
  OutputDelta delta;
  ASSERT_EQ(decoding->WaitForEvent(absl::Seconds(10), delta), RequestStream::Event::kDelta);
  verifier_.Hold(true);
  ASSERT_TRUE(verifier_.AwaitHeldCall());
  std::vector<std::shared_ptr<RequestStream>> streams;
  for (int i = 0; i < kWaiting; ++i) {
    streams.push_back(Submit({.prompt = {1, 2}, .max_tokens = 1}));
  }
  verifier_.SetOpenTime(absl::Milliseconds(20));
  verifier_.Hold(false);
  EXPECT_TRUE(Await([&] {
    (void)decoding->WaitForEvent(absl::ZeroDuration(), delta);
    return scheduler_->stats().running <= 1 && scheduler_->stats().waiting == 0;
  }));
  int before = 1, most = 0;  // The decoding request was opened.
  for (const testing::SharedVerifier::Call& call : verifier_.calls()) {
    most = std::max(most, call.opened - before);
    before = std::max(before, call.opened);
  }
  EXPECT_EQ(before, kWaiting + 1);
  EXPECT_EQ(most, 1);
  for (const auto& stream : streams) EXPECT_TRUE(testing::ReadAll(*stream).status.ok());
}

}  // namespace
}  // namespace bastion
