// The wall clock was set back by half an hour. For seconds, the orchestrator refused all new
// requests: it compared their deadlines, which followed the clock, with a time that did not yet.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/faults/seeded/replica.h"

namespace bastion::testing {
namespace {

TEST(ClockJumpTest, RequestsSucceedRightAfterTheClockWasSetBack) {
  Replica replica({.models = std::string(BASTION_SOURCE_DIR) + "/deploy/demo_model"});
  ASSERT_TRUE(replica.AwaitServing(absl::Seconds(60))) << replica.Log(Service::kOrchestrator);
  const std::unique_ptr<GenerationClient> client = replica.MakeClient();
  v1::GenerateRequest request;
  request.set_text("import os\n");
  request.mutable_stop()->set_max_tokens(2);
  const auto generate = [&] {
    return client->Generate(request, [](const v1::GenerateResponse&) { return true; },
                            {.retry = {.max_attempts = 1}});
  };
  EXPECT_EQ(generate(), absl::OkStatus());
  replica.clock(Service::kOrchestrator).Set(-absl::Minutes(30));
  EXPECT_EQ(generate(), absl::OkStatus());
}

}  // namespace
}  // namespace bastion::testing
