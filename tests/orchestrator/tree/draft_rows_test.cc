#include "orchestrator/tree/draft_rows.h"

#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "orchestrator/tree/best_first.h"
#include "orchestrator/tree/chain.h"
#include "tests/support/borrow.h"
#include "tests/support/pair_reference.h"
#include "tests/support/random_marginals.h"

namespace bastion {
namespace {

using ::bastion::testing::AddPairScores;
using ::bastion::testing::AllPairPaths;
using ::bastion::testing::EdgeCase;
using ::bastion::testing::MarginalsOf;
using ::bastion::testing::PairProbability;
using ::bastion::testing::RandomMarginals;
using ::bastion::testing::RankedPath;
using ::testing::ElementsAre;

constexpr TokenId kPairRoot = 7;

// Two positions with the tokens {0, 1} and {100, 101}. 101 often follows 0, and 100 follows 1.
Marginals CrossedPairs() {
  Marginals marginals = MarginalsOf({{0.6, 0.3}, {0.5, 0.4}});
  const auto twice = static_cast<float>(std::log(2.0)), thrice = static_cast<float>(std::log(3.0));
  marginals.pair_scores = {0, twice, 0, 0, 0, thrice, twice, 0};
  return marginals;
}

std::vector<double> ProbabilitiesOf(const CandidateList& list) {
  std::vector<double> probabilities;
  for (int rank = 0; rank < list.size; ++rank) {
    probabilities.push_back(std::exp(double{list.log_scores[rank]}));
  }
  return probabilities;
}

absl::Span<const TokenId> TokensOf(const CandidateList& list) {
  return {list.tokens, static_cast<size_t>(list.size)};
}

TEST(DraftRowsTest, ChildrenAreScoredByTheirParent) {
  const Marginals marginals = CrossedPairs();
  DraftCandidates candidates(marginals);
  DraftTree tree(kPairRoot);
  tree.Add(0, 0, -1);
  tree.Add(0, 1, -1);
  using ::testing::DoubleNear;
  // After the root, 1 counts twice: 0.6 and 2 · 0.3 share the mass of 0.9. Ties: the smaller token.
  const CandidateList first = candidates.After(tree, 0);
  EXPECT_THAT(TokensOf(first), ElementsAre(0, 1));
  EXPECT_THAT(ProbabilitiesOf(first), ElementsAre(DoubleNear(0.45, 1e-6), DoubleNear(0.45, 1e-6)));
  // After 0: 0.5 and 3 · 0.4 share 0.9.
  const CandidateList after_zero = candidates.After(tree, 1);
  EXPECT_THAT(TokensOf(after_zero), ElementsAre(101, 100));
  EXPECT_THAT(ProbabilitiesOf(after_zero),
              ElementsAre(DoubleNear(0.9 * 1.2 / 1.7, 1e-6), DoubleNear(0.9 * 0.5 / 1.7, 1e-6)));
  // After 1: 2 · 0.5 and 0.4 share 0.9.
  const CandidateList after_one = candidates.After(tree, 2);
  EXPECT_THAT(TokensOf(after_one), ElementsAre(100, 101));
  EXPECT_THAT(ProbabilitiesOf(after_one),
              ElementsAre(DoubleNear(0.9 * 1.0 / 1.4, 1e-6), DoubleNear(0.9 * 0.4 / 1.4, 1e-6)));
}

TEST(DraftRowsTest, AnUnknownParentHasTheMarginals) {
  const Marginals marginals = CrossedPairs();
  CycleDraft draft(marginals);
  DraftCandidates candidates(draft);
  DraftTree tree(kPairRoot);
  tree.Add(0, 55, -1);  // Not a candidate of position 0.
  const CandidateList list = candidates.After(tree, 1);
  EXPECT_THAT(TokensOf(list), ElementsAre(100, 101));
  EXPECT_THAT(absl::MakeConstSpan(list.log_scores, 2),
              ElementsAre(marginals.log_prob(1, 0), marginals.log_prob(1, 1)));
}

TEST(DraftRowsTest, WithoutPairScoresNothingIsCopied) {
  std::mt19937 random(1);
  const Marginals marginals = RandomMarginals(random, 3, 4);
  CycleDraft draft(marginals);
  DraftCandidates candidates(draft);
  const CandidateList list = candidates.After(DraftTree(kPairRoot), 0);
  EXPECT_EQ(list.tokens, draft.Find({}).marginals->tokens.data());
  EXPECT_EQ(list.log_scores, draft.Find({}).marginals->log_probs.data());
}

TEST(DraftRowsTest, NodesWithOneTokenShareTheirRow) {
  Marginals marginals = CrossedPairs();
  marginals.buckets = {2, 1};
  std::mt19937 random(2);
  DraftCandidates candidates(marginals);
  DraftTree tree(kPairRoot), other(kPairRoot + 1);
  tree.Add(0, 0, -1);
  other.Add(0, 1, -1);
  other.Add(0, 0, -1);
  const CandidateList list = candidates.After(tree, 1);
  EXPECT_EQ(candidates.After(other, 2).tokens, list.tokens);
  EXPECT_NE(candidates.After(other, 1).tokens, list.tokens);
  EXPECT_EQ(list.bucket, 1);
  EXPECT_EQ(candidates.After(tree, 0).bucket, 2);
}

TEST(DraftRowsTest, ACandidateWithoutProbabilityIsNeverTaken) {
  Marginals marginals = MarginalsOf({{0.6, 0.3, 0.0}, {0.0, 0.0, 0.0}});
  marginals.pair_scores.assign(18, 0);
  marginals.pair_scores[2] = kMaxPairScore;
  DraftCandidates candidates(marginals);
  const CandidateList list = candidates.After(DraftTree(kPairRoot), 0);
  EXPECT_THAT(TokensOf(list), ElementsAre(0, 1, 2));
  EXPECT_EQ(list.log_scores[2], -std::numeric_limits<float>::infinity());
  EXPECT_NEAR(std::exp(list.log_scores[0]), 0.6, 1e-6);
  EXPECT_EQ(GrowBestFirst(kPairRoot, candidates, 9).nodes(), 2);
}

TEST(DraftRowsTest, ExtremePairScoresGiveValidRows) {
  std::mt19937 random(3);
  for (int draw = 0; draw < 50; ++draw) {
    Marginals marginals = RandomMarginals(random, 1, 8, EdgeCase::kZeroTails);
    if (draw % 2 == 1) {
      for (float& log_prob : marginals.log_probs) log_prob = std::min(log_prob, -1e38f);
    }
    AddPairScores(random, kMaxPairScore, &marginals);
    DraftCandidates candidates(marginals);
    const CandidateList list = candidates.After(DraftTree(kPairRoot), 0);
    for (int rank = 0; rank < list.size; ++rank) {
      EXPECT_FALSE(std::isnan(list.log_scores[rank]));
      EXPECT_LE(list.log_scores[rank], rank == 0 ? 0.0f : list.log_scores[rank - 1]);
    }
  }
}

TEST(DraftRowsTest, ABlockOfANodeUsesItsOwnPairScores) {
  CycleDraft draft;
  draft.set_expands_nodes(true);
  draft.Add({}, MarginalsOf({{0.6, 0.3}, {0.5, 0.4}}));
  draft.Add(TreePath{1}, CrossedPairs());
  DraftCandidates candidates(draft);
  DraftTree tree(kPairRoot);
  tree.Add(0, 1, -1);  // Expanded.
  tree.Add(1, 0, -1);  // Position 1 of its block, on the spine.
  EXPECT_THAT(ProbabilitiesOf(candidates.After(tree, 1))[0], ::testing::DoubleNear(0.45, 1e-6));
  EXPECT_THAT(TokensOf(candidates.After(tree, 2)), ElementsAre(101, 100));
  EXPECT_THAT(TokensOf(candidates.InBlock(tree, 1, 2)), ElementsAre(101, 100));
  EXPECT_THAT(ProbabilitiesOf(candidates.After(tree, 0))[0], ::testing::DoubleNear(0.6, 1e-6));
}

struct PairCase {
  int positions;
  int candidates;
  EdgeCase edge_case;
};

class PairRowsOverCases : public ::testing::TestWithParam<PairCase> {
 protected:
  Marginals Draw() {
    Marginals marginals =
        RandomMarginals(random_, GetParam().positions, GetParam().candidates, GetParam().edge_case);
    AddPairScores(random_, 2, &marginals, GetParam().edge_case);
    return marginals;
  }
  std::mt19937 random_{42};
};

TEST_P(PairRowsOverCases, BestFirstHoldsTheMostProbableNodes) {
  for (int draw = 0; draw < 30; ++draw) {
    const Marginals marginals = Draw();
    const std::vector<RankedPath> sorted = AllPairPaths(marginals);
    const auto all = static_cast<int>(sorted.size());
    for (const int budget : {1, 3, 7, all}) {
      const DraftTree tree =
          GrowBestFirst(kPairRoot, testing::Borrow(DraftCandidates(marginals)), budget);
      ASSERT_EQ(tree.nodes(), std::min(budget, all));
      std::set<std::vector<int>> seen;
      for (NodeIndex node = 1; node <= tree.nodes(); ++node) {
        const std::vector<int> ranks = testing::RanksOf(marginals, tree, node);
        EXPECT_TRUE(seen.insert(ranks).second);
        double probability = 1;
        for (size_t i = 0; i < ranks.size(); ++i) {
          probability *=
              PairProbability(marginals, static_cast<int>(i), i == 0 ? 0 : ranks[i - 1], ranks[i]);
        }
        // In order, and equal to those of the sorted list. Nodes of equal probability may differ.
        EXPECT_NEAR(std::exp(double{tree.log_score(node)}), probability, 1e-6);
        EXPECT_NEAR(probability, sorted[node - 1].probability, 1e-6);
      }
    }
  }
}

TEST_P(PairRowsOverCases, TheChainIsTheWalkOfTheSelector) {
  for (int draw = 0; draw < 100; ++draw) {
    const Marginals marginals = Draw();
    const DraftTree chain = GrowChain(kPairRoot, testing::Borrow(DraftCandidates(marginals)), 15);
    const std::vector<TokenId> tokens(chain.tokens().begin() + 1, chain.tokens().end());
    EXPECT_EQ(tokens, testing::SelectorWalk(marginals));
  }
}

std::vector<PairCase> PairCases() {
  std::vector<PairCase> cases;
  for (int positions = 1; positions <= 3; ++positions) {
    for (const int candidates : {1, 2, 4}) {
      for (const EdgeCase edge_case : {EdgeCase::kNone, EdgeCase::kTies, EdgeCase::kZeroTails}) {
        cases.push_back({positions, candidates, edge_case});
      }
    }
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Small, PairRowsOverCases, ::testing::ValuesIn(PairCases()));

TEST(DraftRowsTest, ConstantsAddedToARowChangeNothing) {
  std::mt19937 random(4);
  Marginals marginals = RandomMarginals(random, 3, 4);
  AddPairScores(random, 2, &marginals);
  Marginals shifted = marginals;
  for (size_t i = 0; i < shifted.pair_scores.size(); ++i) {
    shifted.pair_scores[i] += static_cast<float>(i / 4);
  }
  const DraftTree tree = GrowBestFirst(kPairRoot, testing::Borrow(DraftCandidates(marginals)), 30);
  const DraftTree same = GrowBestFirst(kPairRoot, testing::Borrow(DraftCandidates(shifted)), 30);
  EXPECT_EQ(tree.tokens(), same.tokens());
  for (NodeIndex node = 1; node < tree.rows(); ++node) {
    EXPECT_NEAR(tree.log_score(node), same.log_score(node), 1e-4);
  }
}

}  // namespace
}  // namespace bastion
