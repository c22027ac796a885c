#include "orchestrator/planner/forest_planner.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tests/orchestrator/planner/planner_costs.h"
#include "tests/support/curve_estimator.h"

namespace bastion {
namespace {

using testing::Linear;
using testing::Proposal;
using testing::Stairs;
using testing::Values;

TEST(ForestPlannerTest, TakesTheMostValuableNodesOfAllTrees) {
  const std::vector<double> sure = {0.9, 0.8, 0.7}, unsure = {0.5, 0.2, 0.1};
  ForestPlanner planner;
  planner.Begin(Linear(1.0, 0.25, 0, 6, 0), 2);
  // With three nodes the rate is 2.5 tokens per second. A node costs 0.25 s, so it must be worth
  // about 0.65 tokens.
  const NodePlan plan = planner.ChooseNodes({{.values = sure}, {.values = unsure}}, 0);
  EXPECT_EQ(plan.nodes, (std::vector<int>{3, 0}));
  EXPECT_EQ(plan.reasons[0], BudgetReason::kExhausted);
  EXPECT_EQ(plan.reasons[1], BudgetReason::kCost);
}

TEST(ForestPlannerTest, ANodeMustPayMoreAsTheBatchGrows) {
  const std::vector<double> values = {0.5, 0.4, 0.3};
  // One forward takes 1 s and a node 0.1 s more. Alone, a node must be worth 0.1 tokens; in a batch
  // of eight, 0.8.
  for (const auto& [live, nodes] : {std::pair{1, 3}, std::pair{8, 0}}) {
    ForestPlanner planner;
    planner.Begin(Linear(1.0, 0.1, 0, 100, 0), live);
    const std::vector<TreeProposal> proposals(live, {.values = values});
    EXPECT_EQ(planner.ChooseNodes(proposals, 0).nodes, std::vector<int>(live, nodes)) << live;
  }
}

// For every number of nodes, the plan's rate is at most a little below the best rate.
TEST(ForestPlannerTest, FindsTheBestTotalOnAStaircase) {
  std::mt19937 random(1);
  std::uniform_real_distribution<> uniform(0.0, 1.0);
  for (int draw = 0; draw < 200; ++draw) {
    const int count = 1 + draw % 7;
    std::vector<std::vector<double>> values(count);
    std::vector<double> all;
    for (auto& tree : values) {
      for (double value = 1; tree.size() < 20; tree.push_back(value))
        value *= 0.5 + uniform(random) / 2;
      all.insert(all.end(), tree.begin(), tree.end());
    }
    std::sort(all.rbegin(), all.rend());
    const BatchCost cost = Stairs(40);
    double best = count / cost.verify[0];
    double tokens = count;
    for (int n = 1; n <= 40 && n <= static_cast<int>(all.size()); ++n) {
      best = std::max(best, (tokens += all[n - 1]) / cost.verify[n]);
    }
    std::vector<TreeProposal> proposals;
    for (const auto& tree : values) proposals.push_back({.values = tree});
    ForestPlanner planner;
    planner.Begin(cost, count);
    const NodePlan plan = planner.ChooseNodes(proposals, 0);
    double planned = count;
    int nodes = 0;
    for (int i = 0; i < count; ++i) {
      planned += std::accumulate(values[i].begin(), values[i].begin() + plan.nodes[i], 0.0);
      nodes += plan.nodes[i];
    }
    EXPECT_GE(planned / cost.verify[nodes], 0.97 * best);
  }
}

TEST(ForestPlannerTest, DraftsForTheRequestsThatGainMost) {
  // A verify takes 1 s and nodes are nearly free. A draft costs 0.2 s per request; at three tokens
  // per second it must bring 0.6 tokens.
  ForestPlanner planner;
  planner.Begin(Linear(1.0, 0.001, 0.2, 30, 3), 3);
  const DraftPlan plan =
      planner.ChooseDrafts({Proposal({}, {0.3}), Proposal({}, {0.9, 0.8, 0.7, 0.6}),
                            Proposal({0.9, 0.8, 0.7}, {0.9, 0.8, 0.7})});
  EXPECT_EQ(plan.drafts, (std::vector<bool>{false, true, false}));
  EXPECT_TRUE(plan.explored.empty());
}

TEST(ForestPlannerTest, ADraftAlsoCostsWhatItSlowsTheVerifyDown) {
  BatchCost cost = Linear(1.0, 0.001, 0.1, 30, 1);
  const std::vector<DraftProposal> proposals = {Proposal({}, {0.4})};
  ForestPlanner planner;
  planner.Begin(cost, 1);
  EXPECT_TRUE(planner.ChooseDrafts(proposals).drafts[0]);
  for (double& seconds : cost.verify_after_draft) seconds *= 1.5;
  planner.Begin(cost, 1);
  EXPECT_FALSE(planner.ChooseDrafts(proposals).drafts[0]);
}

TEST(ForestPlannerTest, NeverDraftsWhereDraftsCostMoreThanTheyBring) {
  ForestPlanner planner;
  planner.Begin(Linear(1.0, 0.001, 5.0, 30, 2), 2);
  const DraftPlan plan =
      planner.ChooseDrafts({Proposal({}, {0.9, 0.8, 0.7}), Proposal({}, {0.9, 0.8, 0.7})});
  EXPECT_EQ(plan.drafts, (std::vector<bool>{false, false}));
}

// The planner draws the same conclusion as a comparison of all subsets.
TEST(ForestPlannerTest, ChoosesAsGoodASetOfDraftsAsExhaustiveSearch) {
  std::mt19937 random(2);
  std::uniform_real_distribution<> uniform(0.0, 1.0);
  const auto values = [&](double right) {
    std::vector<double> list;
    for (double value = right; value > 0.02; value *= right) list.push_back(value);
    return list;
  };
  const auto rate_of = [](const BatchCost& cost, const std::vector<std::vector<double>>& trees,
                          int drafts) {
    std::vector<double> all;
    for (const auto& tree : trees) all.insert(all.end(), tree.begin(), tree.end());
    std::sort(all.rbegin(), all.rend());
    double tokens = static_cast<double>(trees.size());
    double best = tokens / (cost.verify[0] + cost.draft[drafts]);
    for (size_t n = 1; n <= std::min(all.size(), cost.verify.size() - 1); ++n) {
      tokens += all[n - 1];
      best = std::max(best, tokens / (cost.verify[n] + cost.draft[drafts]));
    }
    return best;
  };
  for (int draw = 0; draw < 100; ++draw) {
    constexpr int kRequests = 5;
    const BatchCost cost =
        Linear(1.0, 0.02 + 0.1 * uniform(random), 0.05 + 0.3 * uniform(random), 60, kRequests);
    std::vector<std::vector<double>> without(kRequests), with(kRequests);
    std::vector<DraftProposal> proposals;
    for (int i = 0; i < kRequests; ++i) {
      without[i] = values(0.6 * uniform(random));
      with[i] = values(0.5 + 0.4 * uniform(random));
      proposals.push_back(Proposal(without[i], with[i]));
    }
    double best = 0;
    const auto rate_of_set = [&](const auto& drafts) {
      std::vector<std::vector<double>> trees;
      int count = 0;
      for (int i = 0; i < kRequests; ++i) {
        trees.push_back(drafts(i) ? with[i] : without[i]);
        count += drafts(i) ? 1 : 0;
      }
      return rate_of(cost, trees, count);
    };
    for (int set = 0; set < 1 << kRequests; ++set) {
      best = std::max(best, rate_of_set([set](int i) { return (set >> i & 1) != 0; }));
    }
    ForestPlanner planner;
    planner.Begin(cost, kRequests);
    const DraftPlan plan = planner.ChooseDrafts(proposals);
    EXPECT_GE(rate_of_set([&plan](int i) { return bool{plan.drafts[i]}; }), 0.97 * best);
  }
}

TEST(ForestPlannerTest, ExploresTheRequestThatWaitedLongestWhenTheAccountCanPay) {
  ForestPlanner planner;
  std::vector<DraftProposal> proposals = {Proposal({}, {}), Proposal({}, {})};
  proposals[0].cycles_since_draft = 5;
  proposals[1].cycles_since_draft = 9;
  const BatchCost cost = Linear(1.0, 0.1, 0.1, 10, 2);
  int explored = 0;
  constexpr int kCycles = 1000;
  for (int cycle = 0; cycle < kCycles; ++cycle) {
    planner.Begin(cost, 2);
    const DraftPlan plan = planner.ChooseDrafts(proposals);
    if (!plan.explored.empty()) {
      EXPECT_EQ(plan.explored, std::vector<int>{1});
      EXPECT_EQ(plan.drafts, (std::vector<bool>{false, true}));
      ++explored;
    }
    planner.EndCycle(1.0, 0);
  }
  // The share of time that goes into drafts which do not pay.
  EXPECT_NEAR(explored * 0.1, kCycles * ForestPlanner::kExplorationShare, 0.2);
}

TEST(ForestPlannerTest, ExploresEverybodyWhereFurtherDraftsAreFree) {
  ForestPlanner planner;
  BatchCost cost = Linear(1.0, 0.1, 0, 10, 3);
  cost.draft = {0, 0.05, 0.05, 0.05};
  const std::vector<DraftProposal> proposals(3, Proposal({}, {}));
  int calls = 0;
  for (int cycle = 0; cycle < 100; ++cycle) {
    planner.Begin(cost, 3);
    const DraftPlan plan = planner.ChooseDrafts(proposals);
    EXPECT_TRUE(plan.explored.empty() || plan.explored.size() == 3);
    calls += plan.explored.empty() ? 0 : 1;
    planner.EndCycle(1.0, 0);
  }
  EXPECT_NEAR(calls * 0.05, 100 * ForestPlanner::kExplorationShare, 0.06);
}

TEST(ForestPlannerTest, TheAccountDoesNotGrowWhileEverybodyDrafts) {
  ForestPlanner planner;
  const BatchCost cost = Linear(1.0, 0.001, 0.1, 10, 1);
  for (int cycle = 0; cycle < 10000; ++cycle) {
    planner.Begin(cost, 1);
    ASSERT_TRUE(planner.ChooseDrafts({Proposal({}, {0.9, 0.8, 0.7})}).drafts[0]);
    planner.EndCycle(1.0, 0);
  }
  int explored = 0;
  for (int cycle = 0; cycle < 20; ++cycle) {
    planner.Begin(cost, 1);
    explored += static_cast<int>(planner.ChooseDrafts({Proposal({}, {})}).explored.size());
    planner.EndCycle(1.0, 0);
  }
  EXPECT_EQ(explored, 1);
}

TEST(ForestPlannerTest, RestsWherePlanningTakesLongerThanSpeculationSaves) {
  const std::vector<double> values(10, 0.6);
  // A cycle with ten nodes commits 7 tokens in 1.5 s. Plain decoding commits 1.5 in that time. Then
  // planning begins to take far longer than speculation saves.
  BatchCost cost = Linear(1.0, 0.05, 0, 10, 0);
  ForestPlanner planner;
  int rests = 0;
  const auto run = [&](int cycles) {
    for (int cycle = 0; cycle < cycles; ++cycle) {
      if (planner.RestReason(1).has_value()) {
        rests += planner.RestReason(1) == BudgetReason::kCost ? 1 : 0;
        planner.EndRest(1, {.seconds = 1.0, .tokens = 1.0});
        continue;
      }
      planner.Begin(cost, 1);
      const int nodes = planner.ChooseNodes({{.values = values}}, 0).nodes[0];
      planner.EndCycle(cost.verify[nodes] + cost.planning_seconds, 1 + 0.6 * nodes);
    }
  };
  run(1000);
  EXPECT_EQ(rests, 0);
  cost.planning_seconds = 10;
  run(1000);
  EXPECT_GT(rests, 800);
}

TEST(ForestPlannerTest, WeightsDecideBetweenEqualNodes) {
  const std::vector<double> values = {0.5, 0.4, 0.3};
  ForestPlanner planner;
  planner.Begin(Linear(1.0, 0.3, 0, 10, 0), 2.5);
  const NodePlan plan =
      planner.ChooseNodes({{.values = values, .weight = 0.5}, {.values = values, .weight = 2}}, 0);
  EXPECT_EQ(plan.nodes[0], 0);
  EXPECT_GE(plan.nodes[1], 1);
}

TEST(ForestPlannerTest, StaysBelowTheLongestCycleIfItCan) {
  const std::vector<double> values(20, 0.9);
  BatchCost cost = Linear(1.0, 0.1, 0.5, 20, 1);
  cost.max_seconds = 1.35;
  ForestPlanner planner;
  planner.Begin(cost, 1);
  EXPECT_FALSE(planner.ChooseDrafts({Proposal({}, values)}).drafts[0]);
  EXPECT_EQ(planner.ChooseNodes({{.values = values}}, 0).nodes[0], 3);
  cost.max_seconds = 0.5;  // Even a plain step takes longer.
  planner.Begin(cost, 1);
  EXPECT_EQ(planner.ChooseNodes({{.values = values}}, 0).nodes[0], 0);
}

TEST(ForestPlannerTest, EmptyOffersGetNothing) {
  ForestPlanner planner;
  planner.Begin(Linear(1.0, 0.1, 0.1, 0, 0), 1);
  EXPECT_TRUE(planner.ChooseDrafts({}).drafts.empty());
  const NodePlan plan = planner.ChooseNodes({{.end = BudgetReason::kRows}}, 0);
  EXPECT_EQ(plan.nodes, std::vector<int>{0});
  EXPECT_EQ(plan.reasons[0], BudgetReason::kRows);
}

// ---- further rounds ----

// A round takes about 0.1 s, whatever it expands.
DraftCost FlatRounds() {
  DraftCost costs(testing::CurveEstimator([](int) { return 1.0; }), /*rows=*/1);
  for (int i = 0; i < 20; ++i) {
    costs.Observe({1, absl::Milliseconds(100)});
    costs.Observe({64, absl::Milliseconds(100)});
  }
  return costs;
}

TEST(ForestPlannerTest, ARoundIsTakenIfItsNodesAreWorthItsTime) {
  const DraftCost costs = FlatRounds();
  // A second costs one token, a node nothing, so a round must bring 0.1 tokens.
  for (const auto& [gain, taken] : {std::pair{0.05, false}, std::pair{0.15, true}}) {
    ForestPlanner planner;
    planner.FixPrice(1.0);
    planner.Begin(Linear(1.0, 1e-6, 0.1, 64, 1), 1);
    const RoundProposal proposal = {
        .without = Values({0.5}), .with = Values({0.5, gain}), .paths = 1};
    EXPECT_EQ(planner.ChooseRounds({proposal}, costs), std::vector<bool>{taken}) << gain;
  }
}

TEST(ForestPlannerTest, RequestsShareTheTimeOfARound) {
  const DraftCost costs = FlatRounds();
  const RoundProposal small = {.without = Values({}), .with = Values({0.04}), .paths = 2};
  const RoundProposal none = {.without = Values({0.5}), .with = Values({0.5}), .paths = 2};
  ForestPlanner planner;
  planner.FixPrice(1.0);
  planner.Begin(Linear(1.0, 1e-6, 0.1, 64, 4), 4);
  // Alone, 0.04 tokens do not pay for 0.1 s. Three of them do. A round for nothing never does.
  EXPECT_EQ(planner.ChooseRounds({small}, costs), std::vector<bool>{false});
  EXPECT_EQ(planner.ChooseRounds({small, none, small, small}, costs),
            (std::vector<bool>{true, false, true, true}));
}

TEST(ForestPlannerTest, NoRoundExceedsTheLongestCycle) {
  const DraftCost costs = FlatRounds();
  BatchCost cost = Linear(1.0, 1e-6, 0.1, 64, 1);
  cost.max_seconds = 1.05;
  ForestPlanner planner;
  planner.FixPrice(1.0);
  planner.Begin(cost, 1);
  const RoundProposal proposal = {.without = Values({}), .with = Values({0.9}), .paths = 1};
  EXPECT_EQ(planner.ChooseRounds({proposal}, costs), std::vector<bool>{false});
}

TEST(ForestPlannerTest, ADraftMustPayForItsFurtherRounds) {
  for (const auto& [later, drafts] : {std::pair{0.0, true}, std::pair{0.9, false}}) {
    ForestPlanner planner;
    planner.FixPrice(1.0);
    planner.Begin(Linear(1.0, 1e-6, 0.1, 64, 1), 1);
    DraftProposal proposal = Proposal({}, {0.4});
    proposal.later_seconds = later;
    EXPECT_EQ(planner.ChooseDrafts({proposal}).drafts, std::vector<bool>{drafts}) << later;
  }
}

}  // namespace
}  // namespace bastion
