#include "orchestrator/tree/beam.h"

#include <algorithm>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "orchestrator/tree/best_first.h"
#include "tests/support/borrow.h"
#include "tests/support/ddtree_reference.h"
#include "tests/support/random_marginals.h"

namespace bastion {
namespace {

using ::bastion::testing::AllRankTuplesByProbability;
using ::bastion::testing::EdgeCase;
using ::bastion::testing::MarginalsOf;
using ::bastion::testing::RandomMarginals;
using ::bastion::testing::RankTuple;
using ::bastion::testing::Sigma;
using ::testing::ElementsAre;

constexpr TokenId kBeamRoot = 7;
constexpr int kBeamVocabulary = 100000;

// Path scores of the nodes at `depth`, in the order of the tree.
std::vector<float> LevelScores(const DraftTree& tree, int depth) {
  std::vector<float> scores;
  for (NodeIndex i = 1; i < tree.rows(); ++i) {
    if (tree.depth(i) == depth) scores.push_back(tree.log_score(i));
  }
  return scores;
}

// The scores of the `width` best prefixes of this length. Positions are independent, so these are
// also the best extensions of the best shorter prefixes.
std::vector<float> BestOfLength(const Marginals& marginals, int length, int width) {
  std::vector<float> scores;
  for (const RankTuple& ranks : AllRankTuplesByProbability(marginals)) {
    if (static_cast<int>(ranks.size()) == length && static_cast<int>(scores.size()) < width) {
      scores.push_back(static_cast<float>(Sigma(marginals, ranks)));
    }
  }
  return scores;
}

TEST(BeamTest, KeepsTheTwoBestPrefixesOfEachLevel) {
  // Level 1: a .6, b .3. Level 2: ax .3, ay .24, bx .15, by .12. Both nodes kept on level 2
  // are children of a.
  const Marginals marginals = MarginalsOf({{0.6, 0.3, 0.1}, {0.5, 0.4, 0.1}});
  const DraftTree tree = GrowBeam(kBeamRoot, testing::Borrow(DraftCandidates(marginals)), 2, 2);
  EXPECT_THAT(tree.tokens(), ElementsAre(kBeamRoot, 0, 1, 100, 101));
  EXPECT_EQ(tree.parents(), (std::vector<NodeIndex>{kNoNode, 0, 0, 1, 1}));
}

TEST(BeamTest, FourByFifteenHasSixtyOneRows) {
  std::mt19937 random(1);
  const Marginals marginals = RandomMarginals(random, 15, 64);
  EXPECT_EQ(GrowBeam(kBeamRoot, testing::Borrow(DraftCandidates(marginals)), 4, 15).rows(), 61);
}

TEST(BeamTest, EveryLevelHoldsTheBestPrefixesOfItsLength) {
  std::mt19937 random(2);
  for (const EdgeCase edge_case : {EdgeCase::kNone, EdgeCase::kTies, EdgeCase::kZeroTails}) {
    for (int draw = 0; draw < 100; ++draw) {
      const Marginals marginals =
          RandomMarginals(random, 1 + draw % 3, 1 + draw / 3 % 3, edge_case);
      for (int width = 1; width <= 4; ++width) {
        const DraftTree tree =
            GrowBeam(kBeamRoot, testing::Borrow(DraftCandidates(marginals)), width, 3);
        ASSERT_TRUE(tree.Validate(kBeamVocabulary).ok());
        for (int depth = 1; depth <= 3; ++depth) {
          const std::vector<float> level = LevelScores(tree, depth);
          const std::vector<float> best = BestOfLength(marginals, depth, width);
          ASSERT_EQ(level.size(), best.size());
          for (size_t i = 0; i < level.size(); ++i) EXPECT_FLOAT_EQ(level[i], best[i]);
        }
      }
    }
  }
}

TEST(BeamTest, NeverBeatsBestFirstOfTheSameSize) {
  std::mt19937 random(3);
  for (int draw = 0; draw < 20; ++draw) {
    const Marginals marginals = RandomMarginals(random, 15, 16, EdgeCase::kNone, 6.0);
    DraftCandidates candidates(marginals);
    const DraftTree beam = GrowBeam(kBeamRoot, candidates, 4, 15);
    const DraftTree best = GrowBestFirst(kBeamRoot, candidates, beam.nodes());
    EXPECT_LE(beam.ExpectedCommittedLength(), best.ExpectedCommittedLength() + 1e-6);
  }
}

TEST(BeamTest, DepthIsLimitedByThePositions) {
  std::mt19937 random(4);
  const Marginals marginals = RandomMarginals(random, 3, 8);
  EXPECT_EQ(GrowBeam(kBeamRoot, testing::Borrow(DraftCandidates(marginals)), 2, 99).nodes(), 6);
  EXPECT_EQ(GrowBeam(kBeamRoot, testing::Borrow(DraftCandidates(marginals)), 2, 0).nodes(), 0);
}

TEST(BeamTest, ALimitOnNodesKeepsThePrefixOfTheWholeTree) {
  std::mt19937 random(5);
  for (const EdgeCase edge_case : {EdgeCase::kNone, EdgeCase::kTies, EdgeCase::kZeroTails}) {
    const Marginals marginals = RandomMarginals(random, 6, 12, edge_case);
    DraftCandidates candidates(marginals);
    for (const int width : {1, 3, 9, 40}) {
      for (const int limit : {0, 1, 2, 5, 17, 500}) {
        DraftTree whole = GrowBeam(kBeamRoot, candidates, width, 6);
        whole.Truncate(std::min(whole.nodes(), limit));
        EXPECT_EQ(GrowBeam(kBeamRoot, candidates, width, 6, limit), whole) << width << " " << limit;
      }
    }
  }
}

TEST(BeamTest, EmptyMarginalsGiveTheRootAlone) {
  const Marginals marginals;
  EXPECT_EQ(GrowBeam(kBeamRoot, testing::Borrow(DraftCandidates(marginals)), 4, 15),
            DraftTree(kBeamRoot));
}

TEST(BeamTest, WidthZeroFailsACheck) {
  const Marginals marginals;
  EXPECT_DEATH((void)GrowBeam(kBeamRoot, testing::Borrow(DraftCandidates(marginals)), 0, 15),
               "width");
}

}  // namespace
}  // namespace bastion
