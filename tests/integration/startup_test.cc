// Limits the time from starting the three services until the orchestrator's health check reports
// SERVING, for the demo models.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <vector>

#include "common/base/clock.h"
#include "tests/support/service_process.h"

namespace bastion {
namespace {

absl::Duration TimeToServing() {
  const std::string models = std::string(BASTION_SOURCE_DIR) + "/deploy/demo_model";
  testing::SystemOptions options;
  options.target = models + "/target";
  options.drafter = models + "/drafter";
  options.weights = "bf16";
  options.orchestrator_flags = {"--profile_limit=10s"};
  testing::ServiceSystem system(options);
  StopWatch watch;
  system.StartVerifier();
  system.StartDrafter();
  system.StartOrchestrator();
  EXPECT_TRUE(system.AwaitServing()) << system.Log("verifier") << system.Log("orchestrator");
  return watch.Lap();
}

TEST(StartUpTest, AWarmStartTakesLessThanTenSeconds) {
  std::vector<absl::Duration> times;
  for (int i = 0; i < 3; ++i) times.push_back(TimeToServing());
  std::sort(times.begin(), times.end());
  std::cout << "start to SERVING: " << times[0] << ", " << times[1] << ", " << times[2] << "\n";
  // The goal is 3 s on an idle machine. The limit allows for a busy machine.
  EXPECT_LT(times[0], BASTION_SLOWDOWN * absl::Seconds(10));
}

}  // namespace
}  // namespace bastion
