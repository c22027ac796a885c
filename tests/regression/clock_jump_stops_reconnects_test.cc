// The wall clock was set back by half an hour. Then a service was restarted, and the services that
// need it did not connect to it again for half an hour: gRPC waits for times of that clock.
#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "tests/faults/seeded/replica.h"

namespace bastion::testing {
namespace {

class ClockJumpStopsReconnectsTest : public ::testing::Test {
 protected:
  void Restart(Service service) {
    replica_.process(service).Signal(SIGKILL);
    while (replica_.RestartEnded().empty()) absl::SleepFor(absl::Milliseconds(10));
  }
  // Waits until an answer is drafted.
  [[nodiscard]] bool AwaitDrafts() const {
    v1::GenerateRequest request;
    request.set_text("import os\n");
    request.mutable_stop()->set_max_tokens(16);
    request.mutable_speculation()->set_policy("fixed:8");
    uint64_t drafted = 0;
    for (int i = 0; i < 100 && drafted == 0; ++i) {
      const std::unique_ptr<GenerationClient> client = replica_.MakeClient();
      (void)client->Generate(request, [&](const v1::GenerateResponse& event) {
        drafted += event.finished().speculation().draft_tokens();
        return true;
      });
      absl::SleepFor(absl::Milliseconds(100));
    }
    return drafted > 0;
  }

  Replica replica_{{.models = std::string(BASTION_SOURCE_DIR) + "/deploy/demo_model"}};
};

TEST_F(ClockJumpStopsReconnectsTest, ServicesThatWereRestartedAreUsedAgain) {
  ASSERT_TRUE(replica_.AwaitServing(absl::Seconds(60))) << replica_.Log(Service::kOrchestrator);
  ASSERT_TRUE(AwaitDrafts()) << replica_.Log(Service::kDrafter);
  for (const Service service : kServices) replica_.clock(service).Set(-absl::Minutes(30));
  for (const Service service : {Service::kVerifier, Service::kDrafter, Service::kVerifier}) {
    Restart(service);
    EXPECT_TRUE(AwaitDrafts()) << Name(service) << " was restarted\n"
                               << replica_.Log(Service::kOrchestrator)
                               << replica_.Log(Service::kDrafter);
  }
}

}  // namespace
}  // namespace bastion::testing
