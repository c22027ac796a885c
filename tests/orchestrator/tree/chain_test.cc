#include "orchestrator/tree/chain.h"

#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "orchestrator/tree/beam.h"
#include "tests/support/borrow.h"
#include "tests/support/random_marginals.h"

namespace bastion {
namespace {

using ::bastion::testing::MarginalsOf;
using ::bastion::testing::RandomMarginals;
using ::testing::ElementsAre;

constexpr TokenId kChainRoot = 7;

TEST(ChainTest, HoldsTheTopTokenOfEveryPosition) {
  const Marginals marginals = MarginalsOf({{0.5, 0.4}, {0.5, 0.2}, {0.25, 0.2}});
  const DraftTree chain = GrowChain(kChainRoot, testing::Borrow(DraftCandidates(marginals)), 15);
  EXPECT_THAT(chain.tokens(), ElementsAre(kChainRoot, 0, 100, 200));
  EXPECT_TRUE(chain.IsChain());
  // 1 + 1/2 + 1/4 + 1/16.
  EXPECT_NEAR(chain.ExpectedCommittedLength(), 1.8125, 1e-6);
}

TEST(ChainTest, LengthLimitsTheChain) {
  std::mt19937 random(1);
  const Marginals marginals = RandomMarginals(random, 6, 4);
  DraftCandidates candidates(marginals);
  const DraftTree whole = GrowChain(kChainRoot, candidates, 6);
  for (const int length : {-1, 0, 1, 5, 6, 7}) {
    DraftTree expected = whole;
    expected.Truncate(std::clamp(length, 0, 6));
    EXPECT_EQ(GrowChain(kChainRoot, candidates, length), expected);
  }
}

TEST(ChainTest, EndsWhereAllCandidatesHaveZeroProbability) {
  const Marginals marginals = MarginalsOf({{0.5, 0.4}, {0.0, 0.0}, {0.9, 0.1}});
  EXPECT_EQ(GrowChain(kChainRoot, testing::Borrow(DraftCandidates(marginals)), 3).nodes(), 1);
}

TEST(ChainTest, EmptyMarginalsGiveTheRootAlone) {
  const Marginals marginals;
  EXPECT_EQ(GrowChain(kChainRoot, testing::Borrow(DraftCandidates(marginals)), 3),
            DraftTree(kChainRoot));
}

TEST(ChainTest, EqualsTheBeamOfWidthOne) {
  std::mt19937 random(2);
  const Marginals marginals = RandomMarginals(random, 8, 5);
  DraftCandidates candidates(marginals);
  EXPECT_EQ(GrowChain(kChainRoot, candidates, 8), GrowBeam(kChainRoot, candidates, 1, 8));
}

}  // namespace
}  // namespace bastion
