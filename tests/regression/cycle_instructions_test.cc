// Limits the instructions of a decode cycle. Unlike times, counts are not noisy. The limits are
// slightly above the current counts. Lower them when a cycle becomes cheaper.
#include <iostream>
#include <vector>

#include "gtest/gtest.h"
#include "orchestrator/cost/cost_model.h"
#include "orchestrator/planner/forest_planner.h"
#include "orchestrator/policy/policy.h"
#include "orchestrator/policy/request_policy.h"
#include "orchestrator/policy/shared_learning.h"
#include "tests/regression/instruction_count.h"
#include "tests/support/linear_costs.h"
#include "tests/support/random_marginals.h"
#include "tests/support/transition_tables.h"

namespace bastion {
namespace {

using ::bastion::testing::CountInstructions;
using ::bastion::testing::Ladder;
using ::bastion::testing::MarginalsOf;
using ::bastion::testing::RandomTable;

struct InstructionLimit {
  const char* policy;
  int64_t count;  // Per cycle.

  friend std::ostream& operator<<(std::ostream& out, const InstructionLimit& limit) {
    return out << limit.policy;
  }
};

class InstructionsTest : public ::testing::TestWithParam<InstructionLimit> {};

// Everything that a cycle of one request does between the draft and the verify, and after it.
TEST_P(InstructionsTest, PlanningGrowingAndLearningStayWithinTheirLimit) {
  constexpr int kMaxNodes = 127;
  const TransitionGains table{RandomTable(4096, 16, 1)};
  SharedLearning memory({.vocabulary = 4096, .table = &table});
  CostModel costs = testing::LinearCosts();
  costs.draft().Observe({1, absl::Milliseconds(1)});
  const std::unique_ptr<RequestPolicy> request =
      Policy::Parse(GetParam().policy)->NewRequest(/*greedy=*/true, &costs, &memory);
  const Marginals marginals = MarginalsOf(Ladder(7, 64, 0.6));
  ForestPlanner planner;
  const auto run = [&](int cycles) {
    for (int cycle = 0; cycle < cycles; ++cycle) {
      if (request->planned()) planner.Begin(costs.CostOf({.context = 100}, kMaxNodes, 1), 1);
      request->Begin(1, {100, kMaxNodes, 7}, planner.min_values());
      const DraftRound* round = request->NextRound();
      if (round != nullptr && !round->required) (void)planner.ChooseDrafts({round->proposal});
      if (round != nullptr) request->AddDraft(std::vector<Marginals>(1, marginals));
      const TreeProposal offer = request->ProposeTree();
      const int nodes = request->planned() ? planner.ChooseNodes({offer}, 1).nodes[0] : 0;
      const GrownTree grown = request->Finish(nodes, BudgetReason::kCost);
      request->Observe(grown, {{1}, 4000});
    }
  };
  run(50);
  constexpr int kCycles = 2;
  const auto counted = CountInstructions([&] { run(kCycles); });
  if (!counted.ok()) GTEST_SKIP() << counted.status();
  const int64_t per_cycle = *counted / kCycles;
  std::cout << GetParam().policy << ": " << per_cycle << " instructions per cycle\n";
  EXPECT_LE(per_cycle, GetParam().count);
}
INSTANTIATE_TEST_SUITE_P(Policies, InstructionsTest,
                         ::testing::Values(InstructionLimit{"fixed:16", 17000},
                                           InstructionLimit{"adaptive", 97000},
                                           InstructionLimit{"default", 385000}));

}  // namespace
}  // namespace bastion
