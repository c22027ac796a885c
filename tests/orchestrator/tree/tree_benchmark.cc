// How long the trees take. The bar: 256 nodes from 15×256 marginals in less than 100 µs.
#include <random>

#include "benchmark/benchmark.h"
#include "orchestrator/tree/beam.h"
#include "orchestrator/tree/best_first.h"
#include "tests/support/random_marginals.h"

namespace bastion {
namespace {

constexpr int kPositions = 15;
constexpr int kCandidates = 256;

// `sharpness` decides whether the tree is bushy (1) or long (64).
Marginals Draw(double sharpness) {
  std::mt19937 random(1);
  return testing::RandomMarginals(random, kPositions, kCandidates, testing::Awkward::kNone,
                                  sharpness);
}

void BestFirstNodes(benchmark::State& state) {
  const Marginals marginals = Draw(static_cast<double>(state.range(1)));
  const auto budget = static_cast<int>(state.range(0));
  for (auto _ : state) {
    benchmark::DoNotOptimize(GrowBestFirst(1, CandidateScores::Of(marginals), budget));
  }
  state.SetItemsProcessed(state.iterations() * budget);
}
BENCHMARK(BestFirstNodes)
    ->ArgNames({"nodes", "sharpness"})
    ->ArgsProduct({{64, 256, 1024}, {1, 64, 1024}})
    ->Unit(benchmark::kMicrosecond);

void Beam4x15(benchmark::State& state) {
  const Marginals marginals = Draw(64);
  for (auto _ : state) {
    benchmark::DoNotOptimize(GrowBeam(1, CandidateScores::Of(marginals), 4, kPositions));
  }
}
BENCHMARK(Beam4x15)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace bastion
