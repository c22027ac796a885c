#include "orchestrator/policy/dynatree_authors_policy.h"

#include "absl/strings/str_cat.h"
#include "orchestrator/policy/dynatree_policy.h"
#include "tests/orchestrator/policy/policy_fixture.h"
#include "tests/support/borrow.h"
#include "tests/support/dynatree_reference.h"
#include "tests/support/node_oracle.h"

namespace bastion {
namespace {

using testing::NodeOracle;

class DynaTreeAuthorsPolicyTest : public PolicyFixture {
 protected:
  // Runs a request of `cycles` cycles that each commit `committed` tokens. Returns the shape that
  // it began with.
  DynaTreeShape RunGeneration(const std::string& text, int cycles, int committed) {
    const absl::StatusOr<Policy> policy = Policy::Parse(text);
    EXPECT_TRUE(policy.ok()) << policy.status();
    const auto kind = DynaTreePolicy::Parse(text.substr(text.find(':') + 1));
    const auto own = static_cast<const NamedPolicyKind&>(*kind).ForRequest(
        {*policy, /*greedy=*/true, &costs_, &memory_});
    for (int i = 0; i < cycles; ++i) own->Observe(DraftTree(kRoot), committed - 1);
    return static_cast<const DynaTreeAuthorsPolicy&>(*own).TreeShape();
  }
};

TEST_F(DynaTreeAuthorsPolicyTest, GrowsTheAuthorsTreesInEveryPhase) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const NodeOracle oracle(seed, 3, 1 + seed % 5 * 3);
    CycleDraft draft = oracle.Full(7);
    DynaTreeShape shape = DynaTreeAuthorsPolicy::DefaultShape();
    shape.base_depth = 1 + static_cast<int>(seed % 5);
    shape.max_depth = 6;
    shape.nodes = 5 + static_cast<int>(seed);
    // Equal to a probability of the draft: the authors' code needs more.
    const auto first = oracle.Step({});
    if (seed % 2 == 0) shape.deep = std::max(shape.stop, first[0].second);
    if (seed % 3 == 0) shape.high = oracle.Step({first[0].first})[0].second;
    shape.low = std::min(shape.low, shape.high);
    for (int phase = 1; phase <= 3; ++phase) {
      const DynaTreeAuthorsPolicy policy(shape, phase);
      const GrownTree grown = policy.Grow(kRoot, testing::Borrow(DraftCandidates(draft)),
                                          {100, 4000, 64}, /*horizon=*/64, costs_);
      std::vector<TreePath> paths(grown.tree.rows());
      for (NodeIndex node = 1; node < grown.tree.rows(); ++node) {
        paths[node] = paths[grown.tree.parent(node)];
        paths[node].push_back(grown.tree.token(node));
      }
      paths.erase(paths.begin());
      EXPECT_EQ(paths, testing::DynaTreeAuthorsReference(
                           [&](const TreePath& path) { return oracle.Step(path); },
                           {.b_min = 1,
                            .b_mid = 2,
                            .b_max = 3,
                            .tau_l = shape.low,
                            .tau_h = shape.high,
                            .d_0 = shape.base_depth,
                            .d_max = 6,
                            .rho_stop = 0.1,
                            .rho_deep = shape.deep,
                            .tau = 0.05,
                            .n_max = shape.nodes},
                           phase))
          << "seed " << seed << ", phase " << phase;
    }
  }
}

TEST_F(DynaTreeAuthorsPolicyTest, TheDefaultsAreThoseOfTheMainExperiment) {
  const auto kind = DynaTreePolicy::Parse("authors");
  ASSERT_NE(kind, nullptr);
  const DynaTreeShape shape = static_cast<const DynaTreeAuthorsPolicy&>(*kind).TreeShape();
  EXPECT_EQ(shape.base_depth, 4);  // Children of D_0 = 5.
  EXPECT_EQ(shape.max_depth, 7);
  EXPECT_EQ(shape.stop, 0.1);
  EXPECT_NEAR(shape.deep, 0.5, 1e-12);
  EXPECT_EQ(shape.prune, 0.05);
  EXPECT_EQ(shape.nodes, 256);
}

TEST_F(DynaTreeAuthorsPolicyTest, RefusesOptionsThatItDoesNotKnow) {
  for (const char* argument : {"authors,w=8", "authors,phase=4", "authors,phase=0", "authors,x=1",
                               "authors,d0=9", "authors,leaves=2"}) {
    EXPECT_EQ(DynaTreePolicy::Parse(argument), nullptr) << argument;
  }
}

TEST_F(DynaTreeAuthorsPolicyTest, AdjustsOncePerGenerationByTheLastTen) {
  const std::string policy = "dynatree:authors";
  // Trees of D_0 = 5 could commit 6 tokens. 5 of 6 is above 0.8.
  for (int generation = 0; generation < 5; ++generation) {
    EXPECT_EQ(RunGeneration(policy, 4, 5).base_depth, 4) << "too few generations: " << generation;
  }
  EXPECT_EQ(RunGeneration(policy, 4, 5).base_depth, 5);
  const DynaTreeShape later = RunGeneration(policy, 4, 5);
  EXPECT_EQ(later.base_depth, 6);
  EXPECT_NEAR(later.high, 0.8, 1e-9);
  EXPECT_NEAR(later.deep, 0.4, 1e-9);
  // D_0 stays below D_max = 8. The window still has more good generations than bad ones.
  EXPECT_EQ(RunGeneration(policy, 1, 1).base_depth, 6);
  // Means of the last ten: (7 · 5/6 + 1/6)/8 = .75, (7 · 5/6 + 2/6)/9 = .69, … leave it, and .5 …
  for (int generation = 0; generation < 3; ++generation) {
    EXPECT_EQ(RunGeneration(policy, 1, 1).base_depth, 6) << generation;
  }
  EXPECT_EQ(RunGeneration(policy, 1, 1).base_depth, 5) << "mean (6 · 5/6 + 4/6) / 10";
}

TEST_F(DynaTreeAuthorsPolicyTest, PoliciesWithOtherOptionsHaveTheirOwnHistory) {
  for (int generation = 0; generation < 6; ++generation) {
    (void)RunGeneration("dynatree:authors", 4, 6);
  }
  EXPECT_EQ(RunGeneration("dynatree:authors", 4, 6).base_depth, 6);
  EXPECT_EQ(RunGeneration("dynatree:authors,d0=4", 4, 6).base_depth, 3);
}

TEST_F(DynaTreeAuthorsPolicyTest, EarlierPhasesDoNotLearn) {
  for (const int phase : {1, 2}) {
    const auto kind = DynaTreePolicy::Parse(absl::StrCat("authors,phase=", phase));
    ASSERT_NE(kind, nullptr);
    const absl::StatusOr<Policy> policy = Policy::Parse("dynatree:authors");
    EXPECT_EQ(static_cast<const NamedPolicyKind&>(*kind).ForRequest(
                  {*policy, /*greedy=*/true, &costs_, &memory_}),
              nullptr);
  }
}

}  // namespace
}  // namespace bastion
