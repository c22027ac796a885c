#include "orchestrator/belief/reliability.h"

#include <cmath>

#include "tests/orchestrator/policy/policy_fixture.h"

namespace bastion {
namespace {

TEST(ReliabilityTableTest, BinsHoldCountsAndSums) {
  ReliabilityTable table;
  table.Observe(0.0, false);
  table.Observe(0.05, true);
  table.Observe(0.95, true);
  table.Observe(1.0, false);
  EXPECT_EQ(table.count(), 4);
  EXPECT_EQ(table.bins()[0].count, 2);
  EXPECT_EQ(table.bins()[0].accepted, 1);
  EXPECT_DOUBLE_EQ(table.bins()[0].stated, 0.05);
  EXPECT_EQ(table.bins()[9].count, 2);
  EXPECT_DOUBLE_EQ(table.bins()[9].stated, 1.95);
}

TEST(ReliabilityTableTest, TheErrorIsTheWeightedDistanceOfTheBins) {
  ReliabilityTable table;
  EXPECT_EQ(table.expected_calibration_error(), 0);
  // Stated 0.85, accepted 3 of 4: distance 0.1. Stated 0.25, accepted 0 of 1: distance 0.25.
  for (int i = 0; i < 4; ++i) table.Observe(0.85, i > 0);
  table.Observe(0.25, false);
  EXPECT_NEAR(table.expected_calibration_error(), (4 * 0.1 + 0.25) / 5, 1e-12);
  ReliabilityTable twice = table;
  twice.Add(table);
  EXPECT_EQ(twice.count(), 10);
  EXPECT_NEAR(twice.expected_calibration_error(), table.expected_calibration_error(), 1e-12);
}

TEST(ObserveReliabilityTest, CountsNodesWhoseParentWasChosen) {
  // root ─ 5 (0.8) ─ 7 (0.55 after 5)
  //      └ 6 (0.15) ─ 8 (0.9 after 6)
  DraftTree tree(1);
  const NodeIndex five = tree.Add(0, 5, std::log(0.8001f));
  const NodeIndex six = tree.Add(0, 6, std::log(0.15f));
  tree.Add(five, 7, std::log(0.44f));
  tree.Add(six, 8, std::log(0.1f));
  Reliability reliability;
  const std::vector<TokenId> chosen = {5, 9};
  ObserveReliability(tree, chosen, nullptr, &reliability);
  EXPECT_EQ(reliability.before.count(), 3) << "node 8 follows a node that was not chosen";
  EXPECT_EQ(reliability.after.count(), 0);
  EXPECT_EQ(reliability.before.bins()[8].accepted, 1);  // 5
  EXPECT_EQ(reliability.before.bins()[1].accepted, 0);  // 6
  EXPECT_NEAR(reliability.before.bins()[1].stated, 0.15, 1e-6);
  EXPECT_NEAR(reliability.before.bins()[5].stated, 0.55, 1e-4);  // 7
  EXPECT_EQ(reliability.before.bins()[5].accepted, 0);
}

using ReliabilityTest = PolicyFixture;

TEST_F(ReliabilityTest, PoliciesCollectItOnRequestOnly) {
  Reliability reliability;
  const auto run = [&](const char* policy) {
    const std::unique_ptr<RequestPolicy> request = Request(policy);
    const GrownTree grown = Grow(*request, kRoot, marginals_, kWide, 0.05);
    request->Observe(grown, {{1}, grown.tree.token(1) + 1});
    return grown.tree.nodes();
  };
  run("adaptive");
  EXPECT_EQ(reliability.before.count(), 0);
  memory_.set_reliability(&reliability);
  ASSERT_GT(run("adaptive"), 1);
  EXPECT_GT(reliability.after.count(), 0);
  EXPECT_EQ(reliability.before.count(), reliability.after.count());
  reliability = {};
  ASSERT_GT(run("fixed:8"), 1);
  EXPECT_GT(reliability.before.count(), 0);
  EXPECT_EQ(reliability.after.count(), 0) << "named policies do not calibrate";
}

TEST_F(ReliabilityTest, CalibrationReducesTheErrorOfAnOverconfidentDrafter) {
  // The drafter's first candidate is never right, whatever it states.
  Reliability first, later;
  const auto run = [&](int cycles, Reliability* reliability) {
    memory_.set_reliability(reliability);
    const std::unique_ptr<RequestPolicy> request = Request("adaptive");
    for (int i = 0; i < cycles; ++i) {
      const GrownTree grown = Grow(*request, kRoot, marginals_, kWide, 0.001);
      request->Observe(grown, {{}, kOther});
    }
  };
  run(1, &first);
  run(100, &later);
  EXPECT_NEAR(first.after.expected_calibration_error(), first.before.expected_calibration_error(),
              1e-6);
  EXPECT_LT(later.after.expected_calibration_error(),
            0.5 * later.before.expected_calibration_error());
}

}  // namespace
}  // namespace bastion
