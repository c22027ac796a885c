#include "orchestrator/policy/assisted_policy.h"

#include <cmath>

#include "gtest/gtest.h"
#include "tests/support/borrow.h"
#include "tests/support/linear_costs.h"
#include "tests/support/random_marginals.h"

namespace bastion {
namespace {

const TreeLimits kWide = {100, 127, 127};

// A chain whose nodes have these probabilities given their parents.
DraftTree ChainOf(const std::vector<double>& probabilities) {
  DraftTree tree(1);
  double log_score = 0;
  for (size_t i = 0; i < probabilities.size(); ++i) {
    log_score += std::log(probabilities[i]);
    tree.Add(NodeIndex::Of(i), 2, static_cast<float>(log_score));
  }
  return tree;
}

int NodesAfter(const AssistedPolicy& policy, const std::vector<double>& probabilities) {
  testing::Probabilities all;
  for (const double probability : probabilities) all.push_back({probability});
  const Marginals marginals = testing::MarginalsOf(all);
  const CostModel costs = testing::LinearCosts();
  return policy
      .Grow(1, testing::Borrow(DraftCandidates(marginals)), kWide, AssistedPolicy::kTokens, costs)
      .tree.nodes();
}

TEST(AssistedPolicyTest, DraftsTwentyTokensWhileConfident) {
  EXPECT_EQ(NodesAfter(AssistedPolicy(), std::vector<double>(30, 0.9)), 20);
}

TEST(AssistedPolicyTest, StopsAfterTheFirstTokenBelowTheThreshold) {
  EXPECT_EQ(NodesAfter(AssistedPolicy(), {0.9, 0.5, 0.41, 0.39, 0.9}), 4);
  EXPECT_EQ(NodesAfter(AssistedPolicy(), {0.1, 0.9}), 1);
}

TEST(AssistedPolicyTest, TheBestThresholdWeighsFalseNegativesThreeTimes) {
  // At 0.8: no rejected of 2 passes, 1 of 4 accepted passes: 0 + 3 * 3/4 = 2.25.
  // At 0.5: 1 of 2 and 3 of 4: 0.5 + 3 * 1/4 = 1.25. At 0.3: 1 of 2 and 4 of 4: 0.5. At 0.2: 1.
  const std::vector<AssistedToken> tokens = {{0.8, true}, {0.7, true}, {0.6, false},
                                             {0.5, true}, {0.3, true}, {0.2, false}};
  EXPECT_DOUBLE_EQ(BestThreshold(tokens), 0.3);
  // Tokens of one probability pass together: at 0.5, 1 of 1 and 2 of 2 cost 1; at 0.9, 0 and 1 of 2
  // cost 1.5.
  EXPECT_DOUBLE_EQ(
      BestThreshold(std::vector<AssistedToken>{{0.9, true}, {0.5, true}, {0.5, false}}), 0.5);
}

TEST(AssistedPolicyTest, LearnsTheThresholdFromMoreThanFiveTokensOfBothKinds) {
  AssistedPolicy policy;
  policy.Observe(ChainOf({0.9, 0.8, 0.7, 0.6, 0.5}), 5);
  EXPECT_EQ(policy.threshold(), 0.4);  // Five tokens, all accepted.
  policy.Observe(ChainOf({0.95, 0.6, 0.3}), 2);
  EXPECT_NEAR(policy.threshold(), 0.5, 1e-6);  // The rejected token had 0.3.
  policy.Observe(ChainOf({0.9, 0.1, 0.9, 0.9}), 0);
  // Only the first rejected token of a cycle counts: 0.9 was rejected, what follows says nothing.
  EXPECT_NEAR(policy.threshold(), 0.5, 1e-6);
}

TEST(AssistedPolicyTest, EveryRequestHasItsOwnHistory) {
  const AssistedPolicy policy;
  const std::unique_ptr<NamedPolicyKind> own = policy.ForRequest({*Policy::Parse("ar")});
  own->Observe(ChainOf({0.9, 0.8, 0.7, 0.6, 0.5, 0.1}), 5);
  EXPECT_NE(static_cast<const AssistedPolicy&>(*own).threshold(), policy.threshold());
}

}  // namespace
}  // namespace bastion
