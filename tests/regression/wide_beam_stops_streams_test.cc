// A request with the policy beam:4096x4096 sorted millions of candidates in every cycle before its
// tree was cut to the limit. All streams stopped for a second at a time.
#include <gtest/gtest.h>

#include <random>

#include "orchestrator/policy/beam_policy.h"
#include "orchestrator/policy/chain_policy.h"
#include "orchestrator/policy/fixed_policy.h"
#include "tests/support/linear_costs.h"
#include "tests/support/random_marginals.h"

namespace bastion {
namespace {

// Counts the nodes whose candidates are looked at.
class CountedCandidates final : public Candidates {
 public:
  explicit CountedCandidates(const Marginals& marginals) : candidates_(marginals) {}
  [[nodiscard]] int max_depth() const override { return candidates_.max_depth(); }
  [[nodiscard]] CandidateList After(const DraftTree& tree, NodeIndex node) override {
    ++looked_at_;
    return candidates_.After(tree, node);
  }
  [[nodiscard]] int looked_at() const { return looked_at_; }

 private:
  DraftCandidates candidates_;
  int looked_at_ = 0;
};

TEST(WideBeamStopsStreamsTest, TheLimitOnNodesBoundsTheWork) {
  constexpr TreeLimits kLimits = {100, 64, 15};
  std::mt19937 random(1);
  const Marginals marginals = testing::RandomMarginals(random, 15, 512);
  const CostModel costs = testing::LinearCosts();
  const BeamPolicy beam(kLargestPolicyNumber, kLargestPolicyNumber);
  const BeamPolicy narrow(1, kLargestPolicyNumber);
  const ChainPolicy chain(kLargestPolicyNumber);
  const FixedPolicy fixed(kLargestPolicyNumber, FixedPolicy::Source::kDrafter);
  for (const NamedPolicyKind* rule :
       std::initializer_list<const NamedPolicyKind*>{&beam, &narrow, &chain, &fixed}) {
    CountedCandidates candidates(marginals);
    const GrownTree grown = rule->Grow(1, candidates, kLimits, 15, costs);
    EXPECT_GE(grown.tree.nodes(), 15);
    EXPECT_LE(grown.tree.nodes(), kLimits.nodes);
    EXPECT_LE(candidates.looked_at(), kLimits.nodes + 1);
  }
}

}  // namespace
}  // namespace bastion
