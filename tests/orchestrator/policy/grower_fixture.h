// A fixture for tests of TreeGrower, with random marginals and verify costs that are linear in the
// number of rows (linear_costs.h). Header-only.
#ifndef BASTION_TESTS_ORCHESTRATOR_POLICY_GROWER_FIXTURE_H_
#define BASTION_TESTS_ORCHESTRATOR_POLICY_GROWER_FIXTURE_H_

#include <random>
#include <string>

#include "gtest/gtest.h"
#include "orchestrator/policy/tree_grower.h"
#include "tests/support/linear_costs.h"
#include "tests/support/random_marginals.h"

namespace bastion {

using ::bastion::testing::EdgeCase;
using ::bastion::testing::RandomMarginals;

inline constexpr TokenId kRoot = 7;
inline constexpr TokenId kOther = 99999;  // A token that is not a candidate.
// 100 cached tokens, at most 127 nodes, depth at most 15.
inline constexpr TreeLimits kWide = {100, 127, 15};

class TreeGrowerTest : public ::testing::Test {
 protected:
  TreeGrower Grower(const std::string& policy) {
    return TreeGrower(*Policy::Parse(policy), /*greedy=*/true, &costs_, &memory_);
  }
  GrownTree Grow(const std::string& policy, const TreeLimits& limits = kWide) {
    return Grower(policy).Grow(kRoot, marginals_, limits);
  }

  CostModel costs_ = testing::LinearCosts();
  SpeculationMemory memory_;
  std::mt19937 random_{1};
  Marginals marginals_ = RandomMarginals(random_, 15, 32, EdgeCase::kNone, 6.0);
  DraftCandidates candidates_{marginals_};
};

}  // namespace bastion

#endif  // BASTION_TESTS_ORCHESTRATOR_POLICY_GROWER_FIXTURE_H_
