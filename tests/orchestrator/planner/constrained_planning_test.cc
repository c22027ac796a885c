// What the planner does for requests with a constraint: their nodes need masks, and the tokens that
// the constraint forces are offered after the trees.
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "orchestrator/planner/forest_planner.h"
#include "tests/orchestrator/planner/planner_costs.h"

namespace bastion {
namespace {

using testing::Linear;
using testing::Proposal;
using testing::Stairs;

TEST(ConstrainedPlanningTest, NodesMustPayForTheirMasks) {
  const std::vector<double> values = {0.9, 0.8, 0.7};
  // A node takes 0.1 s, and its mask 0.4 s: its price rises from about 0.2 to above 0.9.
  for (const auto& [mask_seconds, nodes] : {std::pair{0.0, 3}, std::pair{0.4, 0}}) {
    ForestPlanner planner;
    planner.Begin(Linear(1.0, 0.1, 0, 6, 0), 2);
    const NodePlan plan = planner.ChooseNodes(
        {{.values = values, .mask_seconds = mask_seconds}, {.values = values}}, 0);
    EXPECT_EQ(plan.nodes, (std::vector<int>{nodes, 3})) << mask_seconds;
  }
}

TEST(ConstrainedPlanningTest, DraftsMustPayForTheMasksOfTheirNodes) {
  for (const auto& [mask_seconds, drafts] : {std::pair{0.0, true}, std::pair{0.9, false}}) {
    ForestPlanner planner;
    planner.Begin(Linear(1.0, 0.05, 0.1, 8, 1), 1);
    DraftProposal proposal = Proposal({}, {0.9, 0.8, 0.7, 0.6});
    proposal.mask_seconds = mask_seconds;
    EXPECT_EQ(planner.ChooseDrafts({proposal}).drafts[0], drafts) << mask_seconds;
  }
}

TEST(ConstrainedPlanningTest, FurtherNodesMustPayBesideThePlannedOnes) {
  ForestPlanner planner;
  planner.Begin(Stairs(32), 4);
  const std::vector<double> planned = {1, 1, 1, 1, 1, 1}, further(20, 0.9);
  ASSERT_EQ(planner.ChooseNodes({{.values = planned}}, 0).nodes[0], 6);
  // Two more nodes are free. A step of eight costs 2 of 12 seconds for 7.2 tokens.
  EXPECT_EQ(planner.ChooseFurtherNodes({.values = std::vector<double>(2, 0.1)}), 2);
  EXPECT_EQ(planner.ChooseFurtherNodes({.values = further}), 20);
  EXPECT_EQ(planner.ChooseFurtherNodes({.values = further}), 4) << "no more than the forward holds";
  EXPECT_EQ(planner.ChooseFurtherNodes({.values = further}), 0);
}

TEST(ConstrainedPlanningTest, FurtherNodesThatAreSeldomAcceptedDoNotPay) {
  ForestPlanner planner;
  planner.Begin(Linear(1.0, 0.25, 0, 6, 0), 2);
  EXPECT_EQ(planner.ChooseFurtherNodes({.values = std::vector<double>{0.9, 0.3, 0.1}}), 1);
  EXPECT_EQ(planner.ChooseFurtherNodes({.values = std::vector<double>{0.9}, .mask_seconds = 0.4}),
            0);
}

}  // namespace
}  // namespace bastion
