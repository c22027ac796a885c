// The prompts of new requests in the planner: in the forward, waiting for one, and in the drafter.
#include <algorithm>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "orchestrator/planner/forest_planner.h"
#include "tests/orchestrator/planner/planner_costs.h"

namespace bastion {
namespace {

using testing::Linear;
using testing::Proposal;

// With many requests and short answers, every cycle has a prompt.
TEST(PromptPlanningTest, TrialsOfPlainDecodingLoseNoMoreWhereEveryCycleHasAPrompt) {
  const std::vector<double> values(10, 0.6);
  BatchCost cost = Linear(1.0, 0.05, 0, 10, 0);
  for (double& seconds : cost.verify) seconds += 10;
  cost.prompt_seconds = 10;
  ForestPlanner planner;
  int tried = 0;
  constexpr int kCycles = 20'000;
  for (int cycle = 0; cycle < kCycles; ++cycle) {
    if (planner.RestReason(1).has_value()) {
      ++tried;
      planner.EndRest(1, {.seconds = 1.0, .tokens = 1.0});
      continue;
    }
    planner.Begin(cost, 1);
    ASSERT_EQ(planner.ChooseNodes({{.values = values}}, 0).nodes[0], 10);
    planner.EndCycle(cost.verify[10], 7);
  }
  // Without the prompts, a cycle makes 7 tokens in 1.5 s. A trial makes 1 in 1 s: it loses 0.79 s.
  EXPECT_NEAR(0.79 * tried, 1.5 * kCycles * RestSchedule::kTrialShare,
              0.15 * kCycles * RestSchedule::kTrialShare);
}

TEST(PromptPlanningTest, PromptsInTheForwardDoNotMakeNodesLookCheap) {
  const std::vector<double> values(20, 0.5);
  BatchCost cost = Linear(1.0, 0.6, 0, 20, 0);
  ForestPlanner planner;
  planner.Begin(cost, 1);
  ASSERT_EQ(planner.ChooseNodes({{.values = values}}, 0).nodes[0], 0);
  for (double& seconds : cost.verify) seconds += 10;
  cost.prompt_seconds = 10;
  for (int cycle = 0; cycle < 5; ++cycle) {
    planner.Begin(cost, 1);
    EXPECT_EQ(planner.ChooseNodes({{.values = values}}, 0).nodes[0], 0) << cycle;
    planner.EndCycle(11, 1);
  }
}

// A longer cycle delays them too.
TEST(PromptPlanningTest, RequestsWhosePromptsWaitMakeTimeMorePrecious) {
  const std::vector<double> values(5, 0.5);
  for (const auto& [waiting_factor, pays] : {std::pair{1.0, true}, std::pair{2.0, false}}) {
    ForestPlanner planner;
    // A second costs a token, a node 0.3 tokens, and a draft 0.9.
    BatchCost cost = Linear(1.0, 0.3, 0.9, 10, 1);
    for (int cycle = 0; cycle < 3; ++cycle) {
      planner.Begin(cost, 1);
      planner.EndCycle(1.0, 1);
    }
    cost.waiting_factor = waiting_factor;
    planner.Begin(cost, 1);
    EXPECT_EQ(planner.ChooseDrafts({Proposal({}, values)}).drafts[0], pays);
    EXPECT_EQ(planner.ChooseNodes({{.values = values}}, 0).nodes[0], pays ? 5 : 0);
  }
}

// A draft gains 2.4 tokens and takes 0.1 s, and a second costs a token. The drafts commit 3.4
// tokens per cycle, so the request has 17 or 18 of them, not 60, to pay for its prompt.
TEST(PromptPlanningTest, ThePromptIsPaidByTheDraftsThatTheRequestCanStillMake) {
  for (const auto& [catch_up, drafts] : {std::pair{35.0, true}, std::pair{45.0, false}}) {
    ForestPlanner planner;
    planner.FixPrice(1.0);
    planner.Begin(Linear(1.0, 1e-6, 0.1, 64, 1), 1);
    DraftProposal proposal = Proposal({}, {0.9, 0.8, 0.7});
    proposal.catch_up_seconds = catch_up;
    proposal.tokens_left = 60;
    EXPECT_EQ(planner.ChooseDrafts({proposal}).drafts, std::vector<bool>{drafts}) << catch_up;
  }
}

// Four requests have drafted before, four are new. A second costs a token. A draft gains 0.7
// tokens, takes 0.1 s, and must bring 0.51 tokens for the prompt of a new request. So each new
// request just pays for itself. The whole call takes `fixed` s more.
TEST(PromptPlanningTest, NewRequestsDoNotKeepACallAliveThatDoesNotPay) {
  for (const auto& [fixed, join] : {std::pair{0.2, true}, std::pair{2.2, false}}) {
    ForestPlanner planner;
    planner.FixPrice(1.0);
    BatchCost cost = Linear(1.0, 1e-6, 0.1, 64, 8);
    for (int m = 1; m <= 8; ++m) cost.draft[m] += fixed;
    planner.Begin(cost, 8);
    std::vector<DraftProposal> proposals(8, Proposal({}, {0.7}));
    for (int i = 0; i < 8; ++i) {
      proposals[i].first = i >= 4;
      proposals[i].prompt_seconds = 30;
      proposals[i].catch_up_seconds = proposals[i].first ? 30 : 0;
      proposals[i].answer_tokens = proposals[i].tokens_left = 100;
    }
    std::vector<bool> expected(8, join);
    std::fill_n(expected.begin(), 4, true);
    EXPECT_EQ(planner.ChooseDrafts(proposals).drafts, expected) << fixed;
  }
}

}  // namespace
}  // namespace bastion
