// The wall clock was set ahead and back again. Then the verifier could not be reached any longer,
// and health said SERVING for as long as the clock had been ahead: the question whether the
// verifier is alive never timed out, because gRPC waits for times of that clock.
#include <gtest/gtest.h>

#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "tests/faults/seeded/replica.h"

namespace bastion::testing {
namespace {

class ClockJumpHidesPartitionTest : public ::testing::Test {
 protected:
  Replica replica_{{.models = std::string(BASTION_SOURCE_DIR) + "/deploy/demo_model"}};
};

TEST_F(ClockJumpHidesPartitionTest, AVerifierThatCannotBeReachedIsNoticed) {
  ASSERT_TRUE(replica_.AwaitServing(absl::Seconds(60))) << replica_.Log(Service::kOrchestrator);
  for (int round = 0; round < 3; ++round) {
    replica_.clock(Service::kOrchestrator).Set(absl::Minutes(30));
    // Longer than all timeouts that are armed meanwhile.
    absl::SleepFor(absl::Seconds(1.5));
    replica_.clock(Service::kOrchestrator).Set(absl::ZeroDuration());
    replica_.link(Link::kOrchestratorToVerifier).Set({.cut = true});
    StopWatch watch;
    absl::Duration time;
    while (replica_.IsServing() && time < absl::Seconds(20)) {
      absl::SleepFor(absl::Milliseconds(20));
      time += watch.Lap();
    }
    EXPECT_LT(time, absl::Seconds(3)) << replica_.Log(Service::kOrchestrator);
    replica_.link(Link::kOrchestratorToVerifier).Set({});
    ASSERT_TRUE(replica_.AwaitServing(absl::Seconds(20))) << replica_.Log(Service::kOrchestrator);
  }
}

}  // namespace
}  // namespace bastion::testing
