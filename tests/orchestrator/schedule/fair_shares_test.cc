#include "orchestrator/schedule/fair_shares.h"

#include <string>

#include "gtest/gtest.h"

namespace bastion {
namespace {

using Shares = FairShares<std::string>;

TEST(FairSharesTest, ServiceAddsUpPerParty) {
  Shares shares;
  shares.Enter("a");
  shares.Enter("b");
  shares.Charge("a", 10);
  shares.Charge("a", 5);
  shares.Charge("b", 2);
  EXPECT_EQ(shares.ServiceOf("a"), 15);
  EXPECT_EQ(shares.ServiceOf("b"), 2);
}

TEST(FairSharesTest, ANewPartyStartsAtTheLevelOfTheLeastServed) {
  Shares shares;
  shares.Enter("a");
  shares.Enter("b");
  shares.Charge("a", 100);
  shares.Charge("b", 40);
  shares.Enter("c");
  EXPECT_EQ(shares.ServiceOf("c"), 40);
}

TEST(FairSharesTest, ADepositCountsForThePartyButNotForTheLevel) {
  Shares shares;
  shares.Enter("a");
  shares.Charge("a", 10);
  shares.Deposit("a", 256);
  shares.Enter("b");
  EXPECT_EQ(shares.ServiceOf("a"), 266);
  EXPECT_EQ(shares.ServiceOf("b"), 10);
  shares.Deposit("a", -256);
  EXPECT_EQ(shares.ServiceOf("a"), 10);
}

TEST(FairSharesTest, AnIdlePartyDoesNotSaveServiceUp) {
  Shares shares;
  shares.Enter("idle");
  shares.Leave("idle");
  shares.Enter("busy");
  shares.Charge("busy", 1000);
  shares.Enter("idle");
  EXPECT_EQ(shares.ServiceOf("idle"), 1000);
}

TEST(FairSharesTest, ADebtOutlivesAShortPause) {
  Shares shares;
  shares.Enter("modest");
  shares.Enter("greedy");
  shares.Charge("greedy", 1000);
  shares.Charge("modest", 10);
  shares.Leave("greedy");
  shares.Enter("greedy");
  EXPECT_EQ(shares.ServiceOf("greedy"), 1000);
}

TEST(FairSharesTest, PartiesWithoutDebtAreForgotten) {
  Shares shares;
  for (int i = 0; i < 1000; ++i) {
    const std::string name = "client" + std::to_string(i);
    shares.Enter(name);
    shares.Charge(name, 7);
    shares.Leave(name);
  }
  EXPECT_LE(shares.size(), 1u);
}

}  // namespace
}  // namespace bastion
