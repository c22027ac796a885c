#include "tools/exactness/walk_outcomes.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion {
namespace {

using ::testing::DoubleNear;
using ::testing::Pointwise;

class WalkOutcomesTest : public ::testing::Test {
 protected:
  // The root has token 0 and children with tokens 1 and 2. The first child has a child with
  // token 1.
  WalkOutcomesTest() {
    tree_.Add(0, 1, -1);
    tree_.Add(0, 2, -1);
    tree_.Add(1, 1, -2);
  }

  DraftTree tree_{0};
  WalkOutcomes outcomes_{&tree_, 3};
};

TEST_F(WalkOutcomesTest, ProbabilitiesMultiplyAlongTheWalk) {
  const std::vector<double> p =
      outcomes_.Probabilities({{0.5, 0.3, 0.2}, {0.6, 0.3, 0.1}, {0.2, 0.2, 0.6}, {0.1, 0.1, 0.8}});
  EXPECT_THAT(p, Pointwise(DoubleNear(1e-12), {0.5, 0.0, 0.0, 0.18, 0.0, 0.03, 0.04, 0.04, 0.12,
                                               0.009, 0.009, 0.072}));
}

TEST_F(WalkOutcomesTest, EntropyIsWeightedByTheShareOfWalksThatReachTheNode) {
  // Only the choice after node 2 is random: two equally likely tokens. Half of the walks reach it.
  const double entropy =
      outcomes_.EntropyBelowRoot({{0.5, 0, 0.5}, {1, 0, 0}, {0.5, 0.5, 0}, {1, 0, 0}});
  EXPECT_NEAR(entropy, 0.5 * std::log(2), 1e-12);
}

TEST_F(WalkOutcomesTest, TruncateWalkKeepsTheFirstChoices) {
  EXPECT_EQ(outcomes_.TruncateWalk(outcomes_.Cell(3, 2), 0), outcomes_.Cell(3, 2));
  EXPECT_EQ(outcomes_.TruncateWalk(outcomes_.Cell(3, 2), 2), outcomes_.Cell(1, 1));
  EXPECT_EQ(outcomes_.TruncateWalk(outcomes_.Cell(3, 2), 1), outcomes_.Cell(0, 1));
  EXPECT_EQ(outcomes_.TruncateWalk(outcomes_.Cell(2, 0), 2), outcomes_.Cell(2, 0));
  EXPECT_EQ(outcomes_.TruncateWalk(outcomes_.Cell(0, 0), 1), outcomes_.Cell(0, 0));
}

TEST_F(WalkOutcomesTest, CellOfRefusesNodesThatDoNotFormAPath) {
  EXPECT_EQ(*outcomes_.CellOf({{1, 3}, 2}), outcomes_.Cell(3, 2));
  EXPECT_TRUE(absl::IsDataLoss(outcomes_.CellOf({{2, 3}, 0}).status()));
  EXPECT_TRUE(absl::IsDataLoss(outcomes_.CellOf({{9}, 0}).status()));
  EXPECT_TRUE(absl::IsDataLoss(outcomes_.CellOf({{1}, 3}).status()));
}

}  // namespace
}  // namespace bastion
