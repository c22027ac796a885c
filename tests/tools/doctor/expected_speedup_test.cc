#include "tools/doctor/expected_speedup.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion::doctor {
namespace {

using ::testing::DoubleNear;

// Costs that grow by `row` with each node, from 1 second.
CycleCosts LinearCosts(int requests, int max_nodes, double row) {
  CycleCosts costs;
  costs.requests = requests;
  for (int nodes = 0; nodes <= max_nodes; ++nodes) {
    costs.without_draft.push_back(1 + row * nodes);
    costs.after_draft.push_back(1 + row * nodes);
  }
  return costs;
}

TEST(ExpectedSpeedup, FreeNodesAreAllKept) {
  const std::vector<RecordedTree> trees = {{{0.9, true}, {0.5, true}, {0.1, false}},
                                           {{0.9, true}, {0.5, false}, {0.1, true}}};
  const Speculation best = BestSpeculation(trees, LinearCosts(1, 8, 0), /*drafted=*/false);
  EXPECT_EQ(best.nodes, 3);
  EXPECT_EQ(best.committed, 3);
  EXPECT_THAT(best.break_even, DoubleNear(1, 1e-9));
  EXPECT_THAT(best.speedup, DoubleNear(3, 1e-9));
}

TEST(ExpectedSpeedup, NodesThatCostMoreThanTheyBringAreDropped) {
  // The first node brings a token for 0.2 seconds, the others bring nothing.
  const std::vector<RecordedTree> trees = {{{0.9, true}, {0.5, false}, {0.1, false}}};
  const Speculation best = BestSpeculation(trees, LinearCosts(1, 8, 0.2), /*drafted=*/false);
  EXPECT_EQ(best.nodes, 1);
  EXPECT_THAT(best.threshold, DoubleNear(0.81, 0.1));
  EXPECT_THAT(best.speedup, DoubleNear(2 / 1.2, 1e-9));
}

TEST(ExpectedSpeedup, UselessTreesLeavePlainDecodingAndPlanning) {
  const std::vector<RecordedTree> trees = {{{0.9, false}, {0.5, false}}};
  CycleCosts costs = LinearCosts(1, 8, 0.5);
  costs.planning_seconds = 0.25;
  const Speculation best = BestSpeculation(trees, costs, /*drafted=*/false);
  EXPECT_EQ(best.nodes, 0);
  EXPECT_EQ(best.committed, 1);
  EXPECT_THAT(best.break_even, DoubleNear(1.25, 1e-9));
}

TEST(ExpectedSpeedup, ADraftMustPayForItsTimeAndForSlowerVerifies) {
  const std::vector<RecordedTree> trees = {{{0.9, true}}};
  CycleCosts costs = LinearCosts(1, 8, 0);
  for (double& seconds : costs.after_draft) seconds += 0.1;
  costs.draft_seconds = 0.4;
  const Speculation drafted = BestSpeculation(trees, costs, /*drafted=*/true);
  EXPECT_THAT(drafted.cycle_seconds, DoubleNear(1.5, 1e-9));
  EXPECT_THAT(drafted.speedup, DoubleNear(2 / 1.5, 1e-9));
}

TEST(ExpectedSpeedup, ABatchPaysForTheNodesOfAllItsRequests) {
  // Plain: 4 tokens per second. With trees: 4 · 2 tokens in 1 + 4 · 0.5 seconds.
  const std::vector<RecordedTree> trees(8, {{0.9, true}});
  const Speculation best = BestSpeculation(trees, LinearCosts(4, 8, 0.5), /*drafted=*/false);
  EXPECT_EQ(best.nodes, 0);
  const Speculation cheap = BestSpeculation(trees, LinearCosts(4, 8, 0.1), /*drafted=*/false);
  EXPECT_EQ(cheap.nodes, 1);
  EXPECT_THAT(cheap.speedup, DoubleNear(2 / 1.4, 1e-9));
}

TEST(ExpectedSpeedup, BatchesWithoutKnownCostsAreNotChosen) {
  // All nodes together would pay, but the costs end at 2 nodes.
  const std::vector<RecordedTree> trees = {{{0.9, true}, {0.8, true}, {0.7, true}}};
  const Speculation best = BestSpeculation(trees, LinearCosts(1, 2, 0), /*drafted=*/false);
  EXPECT_EQ(best.nodes, 2);
}

TEST(ExpectedSpeedup, WithoutRecordedTreesNothingIsExpected) {
  EXPECT_EQ(BestSpeculation({}, LinearCosts(1, 2, 0), /*drafted=*/true).speedup, 0);
}

TEST(ExpectedSpeedup, TheGainScalesByWhatOneRequestGained) {
  EXPECT_THAT(CorrectedSpeedup(1.4, 1.5, 2.0), DoubleNear(1.2, 1e-9));
  // A model that expected nothing at one request cannot be corrected.
  EXPECT_EQ(CorrectedSpeedup(1.4, 1.5, 1.0), 1.4);
  // A loss at one request does not become a loss elsewhere: "default" then decodes plainly.
  EXPECT_EQ(CorrectedSpeedup(1.4, 0.9, 2.0), 1);
}

TEST(ExpectedSpeedup, PromptsAreNotMadeFaster) {
  EXPECT_THAT(WholeSpeedup(2, 0, 10), DoubleNear(2, 1e-9));
  EXPECT_THAT(WholeSpeedup(2, 10, 10), DoubleNear(20.0 / 15, 1e-9));
  EXPECT_EQ(WholeSpeedup(2, 0, 0), 1);
}

}  // namespace
}  // namespace bastion::doctor
