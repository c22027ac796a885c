// Measures how long it takes to grow trees. Goals: 256 nodes from 15×256 marginals in less than
// 100 µs, 1024 nodes from 15×1024 marginals in less than 400 µs.
#include <random>

#include "benchmark/benchmark.h"
#include "orchestrator/prior/weighted_candidates.h"
#include "orchestrator/tree/beam.h"
#include "orchestrator/tree/best_first.h"
#include "tests/support/borrow.h"
#include "tests/support/random_marginals.h"
#include "tests/support/transition_tables.h"

namespace bastion {
namespace {

constexpr int kPositions = 15;

// A `sharpness` of 1 makes the tree bushy, 64 makes it long.
CycleDraft Draw(int candidates, double sharpness) {
  std::mt19937 random(1);
  return CycleDraft(testing::RandomMarginals(random, kPositions, candidates,
                                             testing::EdgeCase::kNone, sharpness));
}

// As many candidates as nodes: more would not change the tree (DDTree, Lemma 1).
void BestFirstNodes(benchmark::State& state) {
  const auto budget = static_cast<int>(state.range(0));
  CycleDraft draft = Draw(budget, static_cast<double>(state.range(1)));
  for (auto _ : state) {
    benchmark::DoNotOptimize(GrowBestFirst(1, testing::Borrow(DraftCandidates(draft)), budget));
  }
  state.SetItemsProcessed(state.iterations() * budget);
}
BENCHMARK(BestFirstNodes)
    ->ArgNames({"nodes", "sharpness"})
    ->ArgsProduct({{64, 256, 1024}, {1, 64, 1024}})
    ->Unit(benchmark::kMicrosecond);

// Goal: 64 nodes in tens of microseconds.
void PairedNodes(benchmark::State& state) {
  const auto candidates = static_cast<int>(state.range(1));
  std::mt19937 random(1);
  Marginals marginals =
      testing::RandomMarginals(random, 7, candidates, testing::EdgeCase::kNone, 16);
  testing::AddPairScores(random, 2, &marginals);
  CycleDraft draft(marginals);
  const auto budget = static_cast<int>(state.range(0));
  for (auto _ : state) {
    benchmark::DoNotOptimize(GrowBestFirst(1, testing::Borrow(DraftCandidates(draft)), budget));
  }
  state.SetItemsProcessed(state.iterations() * budget);
}
BENCHMARK(PairedNodes)
    ->ArgNames({"nodes", "candidates"})
    ->ArgsProduct({{16, 64}, {16, 64}})
    ->Unit(benchmark::kMicrosecond);

void Beam4x15(benchmark::State& state) {
  CycleDraft draft = Draw(/*candidates=*/256, /*sharpness=*/64);
  for (auto _ : state) {
    benchmark::DoNotOptimize(GrowBeam(1, testing::Borrow(DraftCandidates(draft)), 4, kPositions));
  }
}
BENCHMARK(Beam4x15)->Unit(benchmark::kMicrosecond);

// A prior over a vocabulary of 150,000 tokens. The table holds 16 continuations of every token; the
// request adds its own counts. Goal: 64 nodes with 64 candidates in at most 150 µs, and a candidate
// list in well under 1 µs.
struct PriorFixture {
  static constexpr int kVocabulary = 150000;

  PriorFixture() {
    std::mt19937 random(2);
    for (int i = 0; i < 2000; ++i) prior.Append(static_cast<TokenId>(random() % 400));
    prior.Append(1);
  }

  TransitionGains gains{testing::RandomTable(kVocabulary, 16, 1)};
  TransitionPrior prior{{.vocabulary = kVocabulary, .table = &gains}};
  CandidateWeights draft_weights = CandidateWeights::ForDrafts();
  CandidateWeights prior_weights = CandidateWeights::ForPriorAlone();
};

// With pair scores if the second argument is 1. The drafter then has 16 candidates.
void WeightedNodes(benchmark::State& state) {
  static const auto* const fixture = new PriorFixture();
  std::mt19937 random(1);
  const bool paired = state.range(1) == 1;
  Marginals marginals =
      testing::RandomMarginals(random, 7, paired ? 16 : 64, testing::EdgeCase::kNone, 16);
  if (paired) testing::AddPairScores(random, 2, &marginals);
  CycleDraft draft(marginals);
  const auto budget = static_cast<int>(state.range(0));
  for (auto _ : state) {
    WeightedCandidates candidates(draft, 7, &fixture->prior, &fixture->draft_weights);
    benchmark::DoNotOptimize(GrowBestFirst(1, candidates, budget));
  }
  state.SetItemsProcessed(state.iterations() * budget);
}
BENCHMARK(WeightedNodes)
    ->ArgNames({"nodes", "paired"})
    ->ArgsProduct({{4, 16, 64}, {0, 1}})
    ->Unit(benchmark::kMicrosecond);

void PriorNodes(benchmark::State& state) {
  static const auto* const fixture = new PriorFixture();
  const auto budget = static_cast<int>(state.range(0));
  for (auto _ : state) {
    PriorCandidates candidates(16, &fixture->prior, &fixture->prior_weights);
    benchmark::DoNotOptimize(GrowBestFirst(1, candidates, budget));
  }
  state.SetItemsProcessed(state.iterations() * budget);
}
BENCHMARK(PriorNodes)->ArgName("nodes")->Arg(4)->Arg(16)->Arg(64)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace bastion
