// Measures the policy's share of a cycle: growing and choosing a tree, and learning from its
// outcome.
#include <random>

#include "benchmark/benchmark.h"
#include "orchestrator/policy/request_policy.h"
#include "orchestrator/policy/shared_learning.h"
#include "orchestrator/profile/verify_profile.h"
#include "tests/support/random_marginals.h"
#include "tests/support/transition_tables.h"

namespace bastion {
namespace {

CostModel Costs() {
  LatencyProfile table;
  for (const int context : {16, 256, 1024}) {
    for (const int rows : ProfileOptions().row_counts) {
      const double seconds = 1e-3 + 1e-5 * rows + 1e-7 * context;
      table.points.push_back({rows, context, seconds, seconds});
    }
  }
  TargetInfo target;
  target.dims = {2, 4, 2, 1, 3, 5, 10, 2};
  target.peaks = {1e6, 1e6};
  return *CostModel::Fit(target, table);
}

void Cycle(benchmark::State& state, const char* policy, int max_nodes = 127, int candidates = 64) {
  std::mt19937 random(1);
  const Marginals marginals =
      testing::RandomMarginals(random, 15, candidates, testing::EdgeCase::kNone, 64);
  CostModel costs = Costs();
  const TransitionGains gains(testing::RandomTable(20000, 8, 1));
  SharedLearning memory({.vocabulary = gains.vocabulary(), .table = &gains});
  const std::unique_ptr<RequestPolicy> request =
      Policy::Parse(policy)->NewRequest(/*greedy=*/false, &costs, &memory);
  const TreeLimits limits = {300, max_nodes, 15};
  const std::vector<double> min_values = {0.05};
  for (auto _ : state) {
    request->Begin(1, limits, min_values);
    benchmark::DoNotOptimize(request->NextRound());
    request->AddDraft({marginals});
    const TreeProposal proposal = request->ProposeTree();
    const GrownTree grown =
        request->Finish(static_cast<int>(proposal.values.size()), BudgetReason::kCost);
    request->Observe(grown, {{}, 19999});
    benchmark::DoNotOptimize(grown.tree.rows());
  }
}
BENCHMARK_CAPTURE(Cycle, fixed64, "fixed:64")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(Cycle, bastion, "bastion")->Unit(benchmark::kMicrosecond);
// The papers' largest budget. Goal: less than 400 µs.
BENCHMARK_CAPTURE(Cycle, fixed1024, "fixed:1024", 1024, 1024)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(Cycle, bastion1024, "bastion:k=1024", 1024, 1024)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(Cycle, adaptive, "adaptive")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(Cycle, coupled, "adaptive+coupled")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(Cycle, prior, "adaptive+prior")->Unit(benchmark::kMicrosecond);

// Planning 64 requests that propose 256 candidates each, on a GPU-like cost curve.
void Plan(benchmark::State& state) {
  constexpr int kRequests = 64, kCandidates = 256;
  BatchCost cost;
  for (int n = 0; n <= 447; ++n) cost.verify.push_back(6e-3 + 1e-3 * ((n + 63) / 64));
  cost.verify_after_draft = cost.verify;
  for (int m = 0; m <= kRequests; ++m) cost.draft.push_back(1e-3 + 2e-5 * m);
  std::mt19937 random(1);
  std::uniform_real_distribution<> uniform(0.9, 1.0);
  std::vector<std::vector<double>> values(kRequests);
  std::vector<DraftProposal> drafts(kRequests);
  std::vector<TreeProposal> trees;
  for (int i = 0; i < kRequests; ++i) {
    double value = 1;
    for (int n = 0; n < kCandidates; ++n) {
      values[i].push_back(value *= uniform(random));
      drafts[i].with.Add(value);
      if (n < 8) drafts[i].without.Add(value / 2);
    }
    trees.push_back({.values = values[i]});
  }
  ForestPlanner planner;
  for (auto _ : state) {
    planner.Begin(cost, kRequests);
    const DraftPlan draft_plan = planner.ChooseDrafts(drafts);
    const NodePlan node_plan = planner.ChooseNodes(trees, kRequests);
    benchmark::DoNotOptimize(draft_plan.drafts.size() + node_plan.nodes.size());
  }
}
BENCHMARK(Plan)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace bastion
