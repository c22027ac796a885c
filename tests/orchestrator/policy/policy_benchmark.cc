// Measures the policy's share of a cycle: growing and choosing a tree, and learning from its
// outcome.
#include <random>

#include "benchmark/benchmark.h"
#include "orchestrator/cost/calibration.h"
#include "orchestrator/policy/tree_grower.h"
#include "tests/support/random_marginals.h"
#include "tests/support/transition_tables.h"

namespace bastion {
namespace {

CostModel Costs() {
  CalibrationTable table;
  for (const int context : {16, 256, 1024}) {
    for (const int rows : CalibrationOptions().row_counts) {
      const double seconds = 1e-3 + 1e-5 * rows + 1e-7 * context;
      table.points.push_back({rows, context, seconds, seconds});
    }
  }
  TargetInfo target;
  target.dims = {2, 4, 2, 1, 3, 5, 10, 2};
  target.peaks = {1e6, 1e6};
  return *CostModel::Fit(target, table);
}

void Cycle(benchmark::State& state, const char* policy) {
  std::mt19937 random(1);
  const Marginals marginals =
      testing::RandomMarginals(random, 15, 64, testing::EdgeCase::kNone, 64);
  CostModel costs = Costs();
  const TransitionGains gains(testing::RandomTable(20000, 8, 1));
  SpeculationMemory memory({.vocabulary = gains.vocabulary(), .table = &gains});
  TreeGrower grower(*Policy::Parse(policy), /*greedy=*/false, &costs, &memory);
  const TreeLimits limits = {300, 127, 15};
  for (auto _ : state) {
    benchmark::DoNotOptimize(grower.DecideDraft(1, limits));
    const GrownTree grown = grower.Grow(1, marginals, limits);
    grower.Observe(grown, {{}, 19999}, absl::Microseconds(1));
    benchmark::DoNotOptimize(grown.tree.rows());
  }
}
BENCHMARK_CAPTURE(Cycle, fixed64, "fixed:64")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(Cycle, bastion, "bastion")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(Cycle, adaptive, "adaptive")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(Cycle, coupled, "adaptive+coupled")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(Cycle, prior, "adaptive+prior")->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace bastion
