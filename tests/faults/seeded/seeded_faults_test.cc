// A short run of seeded faults. tests/slow/faults_test.py has the long ones.
#include <gtest/gtest.h>

#include <iostream>
#include <string>
#include <vector>

#include "tests/faults/seeded/campaign.h"

namespace bastion::testing {
namespace {

// The kinds of faults that end soonest.
constexpr const char* kKinds[] = {"kill-drafter", "kv", "delay", "corrupt", "truncate"};

TEST(SeededFaultsTest, NoRequestFailsThatNeedNotFail) {
  Replica replica({.models = std::string(BASTION_SOURCE_DIR) + "/deploy/demo_model"});
  Campaign campaign(replica, {.seed = 11}, std::cout);
  ASSERT_TRUE(campaign.Prepare());
  const std::vector<FaultKind> kinds = UsableKinds(replica);
  for (const char* const name : kKinds) {
    for (const FaultKind& kind : kinds) {
      if (kind.name == name) campaign.Run(kind);
    }
  }
  campaign.Drain();
  std::cout << campaign.Table();
  EXPECT_TRUE(campaign.passed()) << replica.Log(Service::kOrchestrator);
}

}  // namespace
}  // namespace bastion::testing
