#include "orchestrator/tree/best_first.h"

#include <cmath>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/borrow.h"
#include "tests/support/ddtree_reference.h"
#include "tests/support/random_marginals.h"

namespace bastion {
namespace {

using ::bastion::testing::AllRankTuplesByProbability;
using ::bastion::testing::DdtreeReference;
using ::bastion::testing::EdgeCase;
using ::bastion::testing::MarginalsOf;
using ::bastion::testing::RandomMarginals;
using ::bastion::testing::RankTuple;
using ::bastion::testing::Sigma;
using ::testing::ElementsAre;

constexpr TokenId kRoot = 7;
constexpr int kVocabulary = 100000;

DraftTree Grow(const Marginals& marginals, int budget) {
  return GrowBestFirst(kRoot, testing::Borrow(DraftCandidates(marginals)), budget);
}

// Tries every prefix-closed set of up to `max_nodes` prefixes and keeps the best Â of each size.
class ExhaustiveSearch {
 public:
  ExhaustiveSearch(const Marginals& marginals, int max_nodes)
      : marginals_(marginals), best_(max_nodes + 1, 0.0) {
    Extend({RankTuple()}, /*size=*/-1, /*sum=*/0.0);
  }
  // Â of the best tree of exactly n nodes; 0 when there is none.
  double best(int n) const { return best_[n]; }

 private:
  // `open` holds the prefixes that may still join the set. Taking them in order visits each set
  // once.
  void Extend(std::vector<RankTuple> open, int size, double sum) {
    if (size >= 0) best_[size] = std::max(best_[size], sum);
    if (size + 1 == static_cast<int>(best_.size())) return;
    while (!open.empty()) {
      const RankTuple prefix = open.back();
      open.pop_back();
      std::vector<RankTuple> more = open;
      if (static_cast<int>(prefix.size()) < marginals_.positions) {
        for (int rank = 0; rank < marginals_.candidates; ++rank) {
          more.push_back(prefix);
          more.back().push_back(rank);
        }
      }
      Extend(more, size + 1, sum + std::exp(Sigma(marginals_, prefix)));
    }
  }

  const Marginals& marginals_;
  std::vector<double> best_;
};

TEST(BestFirstTest, AddsNodesInOrderOfPathScore) {
  // Position 1: 0.6 0.3, position 2: 0.5 0.4. Path scores: a .6, ax .3, b .3, ay .24, bx .15, by
  // .12. Adding a offers b (.3) and then ax (.3). b wins the tie because it was offered first.
  const Marginals marginals = MarginalsOf({{0.6, 0.3}, {0.5, 0.4}});
  const DraftTree tree = Grow(marginals, 100);
  EXPECT_THAT(tree.tokens(), ElementsAre(kRoot, 0, 1, 100, 101, 100, 101));
  EXPECT_EQ(tree.parents(), (std::vector<NodeIndex>{kNoNode, 0, 0, 1, 1, 2, 2}));
  EXPECT_NEAR(tree.ExpectedCommittedLength(), 1 + 0.6 + 0.3 + 0.3 + 0.24 + 0.15 + 0.12, 1e-6);
}

TEST(BestFirstTest, ChildIsOfferedWithoutASibling) {
  const Marginals marginals = MarginalsOf({{1.0}, {0.5}, {0.5}});  // K = 1: only a chain.
  EXPECT_TRUE(Grow(marginals, 10).IsChain());
  EXPECT_EQ(Grow(marginals, 10).nodes(), 3);
}

TEST(BestFirstTest, SiblingIsOfferedAtTheLastDepth) {
  const Marginals marginals = MarginalsOf({{0.5, 0.3, 0.2}});  // P = 1: only siblings.
  EXPECT_EQ(Grow(marginals, 10).parents(), (std::vector<NodeIndex>{kNoNode, 0, 0, 0}));
}

TEST(BestFirstTest, EmptyMarginalsGiveTheRootAlone) {
  EXPECT_EQ(Grow(Marginals(), 10), DraftTree(kRoot));
}

TEST(BestFirstTest, NoCandidatesGiveTheRootAlone) {
  Marginals marginals;
  marginals.positions = 3;
  EXPECT_EQ(Grow(marginals, 10), DraftTree(kRoot));
}

TEST(BestFirstTest, ZeroAndNegativeBudgetGiveTheRootAlone) {
  const Marginals marginals = MarginalsOf({{0.6, 0.3}});
  EXPECT_EQ(Grow(marginals, 0), DraftTree(kRoot));
  EXPECT_EQ(Grow(marginals, -1), DraftTree(kRoot));
}

TEST(BestFirstTest, CandidatesWithZeroProbabilityAreNeverTaken) {
  const Marginals marginals = MarginalsOf({{1.0, 0.0, 0.0}, {0.7, 0.3, 0.0}, {0.0, 0.0, 0.0}});
  const DraftTree tree = Grow(marginals, 100);
  EXPECT_THAT(tree.tokens(), ElementsAre(kRoot, 0, 100, 101));
}

TEST(BestFirstTest, PeekScorePredictsAddNext) {
  std::mt19937 random(1);
  const Marginals marginals = RandomMarginals(random, 4, 5);
  DraftCandidates candidates(marginals);
  DraftTree tree(kRoot);
  BestFirst best_first(candidates, 64, &tree);
  for (int n = 1; n <= 64; ++n) {
    ASSERT_FALSE(best_first.exhausted());
    const double predicted = best_first.PeekScore();
    EXPECT_EQ(best_first.AddNext(), predicted);
    EXPECT_EQ(tree.nodes(), n);
    EXPECT_NEAR(std::exp(tree.log_score(NodeIndex::Of(n))), predicted, 1e-6);
  }
}

TEST(BestFirstTest, ReportsWhenExhausted) {
  const Marginals marginals = MarginalsOf({{0.6, 0.4}, {0.6, 0.4}});
  DraftCandidates candidates(marginals);
  DraftTree tree(kRoot);
  BestFirst best_first(candidates, 1, &tree);  // Grows beyond the one expected node.
  for (int n = 0; n < 6; ++n) best_first.AddNext();
  EXPECT_TRUE(best_first.exhausted());
  EXPECT_EQ(best_first.PeekScore(), 0.0);
  EXPECT_DEATH(best_first.AddNext(), "exhausted");
}

TEST(BestFirstTest, RefusesATreeThatHasNodes) {
  const Marginals marginals = MarginalsOf({{0.6, 0.4}});
  DraftTree tree(kRoot);
  tree.Add(0, 1, -1.0f);
  EXPECT_DEATH(BestFirst(testing::Borrow(DraftCandidates(marginals)), 1, &tree), "nodes");
}

TEST(BestFirstTest, DepthLimitsTheTree) {
  std::mt19937 random(2);
  const Marginals marginals = RandomMarginals(random, 5, 3);
  EXPECT_EQ(GrowBestFirst(kRoot, testing::Borrow(DraftCandidates(marginals, 2)), 1000).nodes(),
            3 + 9);
  EXPECT_EQ(GrowBestFirst(kRoot, testing::Borrow(DraftCandidates(marginals, 9)), 300).nodes(), 300);
  EXPECT_EQ(GrowBestFirst(kRoot, testing::Borrow(DraftCandidates(marginals, -1)), 1000).nodes(), 0);
}

struct Case {
  int positions;
  int candidates;
  EdgeCase edge_case;
};

class BestFirstOverCases : public ::testing::TestWithParam<Case> {
 protected:
  Marginals Draw() {
    return RandomMarginals(random_, GetParam().positions, GetParam().candidates,
                           GetParam().edge_case);
  }
  std::mt19937 random_{42};
};

TEST_P(BestFirstOverCases, NoPrefixClosedTreeIsBetter) {
  constexpr int kMaxNodes = 6;
  for (int draw = 0; draw < 20; ++draw) {
    const Marginals marginals = Draw();
    const ExhaustiveSearch search(marginals, kMaxNodes);
    for (int n = 0; n <= kMaxNodes; ++n) {
      const DraftTree tree = Grow(marginals, n);
      // With zero tails the tree may have fewer than n nodes. More nodes would not raise Â.
      EXPECT_NEAR(tree.ExpectedCommittedLength(),
                  std::max(search.best(n), search.best(tree.nodes())), 1e-6);
    }
  }
}

TEST_P(BestFirstOverCases, HoldsTheMostProbablePrefixesInOrder) {
  for (int draw = 0; draw < 50; ++draw) {
    const Marginals marginals = Draw();
    const std::vector<RankTuple> sorted = AllRankTuplesByProbability(marginals);
    const DraftTree tree = Grow(marginals, 1000);
    ASSERT_EQ(tree.nodes(), static_cast<int>(sorted.size()));
    for (int n = 1; n <= tree.nodes(); ++n) {
      EXPECT_FLOAT_EQ(tree.log_score(NodeIndex::Of(n)),
                      static_cast<float>(Sigma(marginals, sorted[n - 1])));
    }
  }
}

TEST_P(BestFirstOverCases, TreesAreNestedAndScoresNeverRise) {
  const Marginals marginals = Draw();
  const DraftTree all = Grow(marginals, 1000);
  ASSERT_TRUE(all.Validate(kVocabulary).ok());
  for (int n = 0; n <= all.nodes(); ++n) {
    DraftTree prefix = all;
    prefix.Truncate(n);
    EXPECT_EQ(Grow(marginals, n), prefix);
    if (n > 1) {
      EXPECT_LE(all.log_score(NodeIndex::Of(n)), all.log_score(NodeIndex::Of(n - 1)));
    }
  }
}

TEST_P(BestFirstOverCases, EqualsThePublishedProcedure) {
  for (int draw = 0; draw < 50; ++draw) {
    const Marginals marginals = Draw();
    for (const int budget : {0, 1, 2, 3, 5, 8, 1000}) {
      EXPECT_EQ(Grow(marginals, budget), DdtreeReference(kRoot, marginals, budget));
    }
  }
}

std::vector<Case> SmallCases() {
  std::vector<Case> cases;
  for (int positions = 1; positions <= 3; ++positions) {
    for (int candidates = 1; candidates <= 3; ++candidates) {
      for (const EdgeCase edge_case : {EdgeCase::kNone, EdgeCase::kTies, EdgeCase::kZeroTails}) {
        cases.push_back({positions, candidates, edge_case});
      }
    }
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Small, BestFirstOverCases, ::testing::ValuesIn(SmallCases()));

TEST(BestFirstTest, EqualsThePublishedProcedureAtServingSize) {
  std::mt19937 random(3);
  for (const double sharpness : {1.0, 8.0, 40.0}) {
    const Marginals marginals = RandomMarginals(random, 15, 64, EdgeCase::kNone, sharpness);
    EXPECT_EQ(Grow(marginals, 256), DdtreeReference(kRoot, marginals, 256));
  }
}

TEST(BestFirstTest, TwoCandidatesPerPositionFillALargeBudget) {
  std::mt19937 random(4);
  const Marginals marginals = RandomMarginals(random, 15, 2);
  EXPECT_EQ(Grow(marginals, 300).nodes(), 300);
}

}  // namespace
}  // namespace bastion
