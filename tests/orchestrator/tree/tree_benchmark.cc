// How long the trees take. The bar: 256 nodes from 15×256 marginals in less than 100 µs.
#include <random>

#include "benchmark/benchmark.h"
#include "orchestrator/prior/weighted_candidates.h"
#include "orchestrator/tree/beam.h"
#include "orchestrator/tree/best_first.h"
#include "tests/support/random_marginals.h"
#include "tests/support/transition_tables.h"

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
    benchmark::DoNotOptimize(GrowBestFirst(1, MarginalRows(marginals), budget));
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
    benchmark::DoNotOptimize(GrowBeam(1, MarginalRows(marginals), 4, kPositions));
  }
}
BENCHMARK(Beam4x15)->Unit(benchmark::kMicrosecond);

// A vocabulary of 150 k; 16 continuations of every token, and of 8 every pair that the request
// makes. The bar: 64 nodes with 64 candidates in at most 150 µs, a row in well under 1 µs.
struct Evidence {
  static constexpr int kVocabulary = 150000;

  Evidence() {
    std::mt19937 random(2);
    for (int i = 0; i < 2000; ++i) prior.Append(static_cast<TokenId>(random() % 400));
    prior.Append(1);
  }

  TransitionGains gains{testing::NonsenseTable(kVocabulary, 16, 1)};
  TransitionPrior prior{{.vocabulary = kVocabulary, .table = &gains}};
  EvidenceWeights draft_weights = EvidenceWeights::OfDrafts();
  EvidenceWeights prior_weights = EvidenceWeights::OfPriorAlone();
};

void EvidenceNodes(benchmark::State& state) {
  static const auto* const evidence = new Evidence();
  std::mt19937 random(1);
  const Marginals marginals = testing::RandomMarginals(random, 7, 64, testing::Awkward::kNone, 16);
  const auto budget = static_cast<int>(state.range(0));
  for (auto _ : state) {
    const EvidenceRows rows(marginals, 7, &evidence->prior, &evidence->draft_weights);
    benchmark::DoNotOptimize(GrowBestFirst(1, rows, budget));
  }
  state.SetItemsProcessed(state.iterations() * budget);
}
BENCHMARK(EvidenceNodes)->ArgName("nodes")->Arg(4)->Arg(16)->Arg(64)->Unit(benchmark::kMicrosecond);

void PriorNodes(benchmark::State& state) {
  static const auto* const evidence = new Evidence();
  const auto budget = static_cast<int>(state.range(0));
  for (auto _ : state) {
    const PriorRows rows(16, &evidence->prior, &evidence->prior_weights);
    benchmark::DoNotOptimize(GrowBestFirst(1, rows, budget));
  }
  state.SetItemsProcessed(state.iterations() * budget);
}
BENCHMARK(PriorNodes)->ArgName("nodes")->Arg(4)->Arg(16)->Arg(64)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace bastion
