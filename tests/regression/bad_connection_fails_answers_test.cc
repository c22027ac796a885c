// A connection to the verifier broke six times within 0.3 seconds. Each break counted as a loss of
// the verifier, and a request that had got no token in between failed after six.
#include <gtest/gtest.h>

#include "tests/orchestrator/schedule/live_request_fixture.h"
#include "tests/support/manual_clock.h"

namespace bastion {
namespace {

TEST(BadConnectionFailsAnswersTest, LossesInQuickSuccessionCountOnce) {
  testing::ManualClock clock;
  const testing::RequestMaker maker(&clock);
  const auto request = maker.Make({});
  for (int i = 0; i < 10; ++i) {
    request->CountLoss();
    EXPECT_EQ(request->losses(), 1);
    clock.Advance(absl::Milliseconds(30));
  }
  clock.Advance(LiveRequest::kLossInterval);
  request->CountLoss();
  EXPECT_EQ(request->losses(), 2);
}

}  // namespace
}  // namespace bastion
