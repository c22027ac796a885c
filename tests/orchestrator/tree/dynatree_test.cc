#include "orchestrator/tree/dynatree.h"

#include <algorithm>

#include "gmock/gmock.h"
#include "tests/support/borrow.h"
#include "tests/support/dynatree_reference.h"
#include "tests/support/node_oracle.h"

namespace bastion {
namespace {

using testing::DynaTreeReference;
using ::testing::ElementsAre;
using testing::NodeOracle;

constexpr TokenId kPaperRoot = 50;

std::vector<TreePath> PathsOf(const DraftTree& tree) {
  std::vector<TreePath> paths(tree.rows());
  for (NodeIndex node = 1; node < tree.rows(); ++node) {
    paths[node] = paths[tree.parent(node)];
    paths[node].push_back(tree.token(node));
  }
  paths.erase(paths.begin());
  return paths;
}

testing::DynaTreeArguments ArgumentsOf(const DynaTreeShape& shape) {
  return {.b_min = shape.min_branches,
          .b_mid = shape.mid_branches,
          .b_max = shape.max_branches,
          .tau_l = shape.low,
          .tau_h = shape.high,
          .d_0 = shape.base_depth,
          .d_max = shape.max_depth,
          .rho_stop = shape.stop,
          .rho_deep = shape.deep,
          .tau = shape.prune,
          .n_max = shape.nodes};
}

TEST(DynaTreeTest, EqualsALineByLineImplementationOfAlgorithmOne) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const double sharpness = 1 + seed % 5 * 3;
    const NodeOracle oracle(seed, 3, sharpness);
    CycleDraft draft = oracle.Full(7);
    const DynaTreeShape shape = {.base_depth = 1 + static_cast<int>(seed % 4),
                                 .max_depth = 6,
                                 .stop = seed % 2 == 0 ? 0.01 : 0.1,
                                 .deep = 0.3,
                                 .prune = seed % 3 == 0 ? 0.2 : 0.02,
                                 .nodes = 5 + static_cast<int>(seed)};
    const DraftTree tree = GrowDynaTree(kPaperRoot, testing::Borrow(DraftCandidates(draft)), shape);
    EXPECT_EQ(PathsOf(tree),
              DynaTreeReference([&](const TreePath& path) { return oracle.Step(path); },
                                ArgumentsOf(shape)))
        << "seed " << seed;
    EXPECT_TRUE(tree.Validate(100).ok());
  }
}

TEST(DynaTreeTest, WithoutLeavesNoNodeIsLessLikelyThanTheThreshold) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const NodeOracle oracle(seed, 3, 1 + seed % 5 * 3);
    CycleDraft draft = oracle.Full(7);
    DynaTreeShape shape = {.max_depth = 6, .stop = 0, .deep = 0, .prune = 0.1};
    const DraftTree all = GrowDynaTree(kPaperRoot, testing::Borrow(DraftCandidates(draft)), shape);
    shape.keeps_leaves = false;
    const DraftTree likely =
        GrowDynaTree(kPaperRoot, testing::Borrow(DraftCandidates(draft)), shape);
    std::vector<TreePath> expected = PathsOf(all);
    NodeIndex node = 0;
    std::erase_if(expected,
                  [&](const TreePath&) { return std::exp(all.log_score(++node)) < 0.1F; });
    EXPECT_EQ(PathsOf(likely), expected) << "seed " << seed;
  }
}

TEST(DynaTreeTest, TheFixedTreeIsCompleteBelowItsFirstToken) {
  const NodeOracle oracle(1, 3);
  CycleDraft draft = oracle.Full(7);
  const DraftTree tree =
      GrowDynaTree(kPaperRoot, testing::Borrow(DraftCandidates(draft)), FixedTreeShape(5, 2, 256));
  EXPECT_EQ(tree.nodes(), 1 + 2 + 4 + 8 + 16 + 32);
  const DraftTree cut =
      GrowDynaTree(kPaperRoot, testing::Borrow(DraftCandidates(draft)), FixedTreeShape(5, 2, 20));
  EXPECT_EQ(cut.nodes(), 20);
}

// One node with the given probabilities at every path.
CycleDraft Everywhere(const std::vector<double>& probabilities, int depth) {
  CycleDraft draft;
  draft.set_expands_nodes(true);
  std::vector<TreePath> level = {{}};
  for (int d = 0; d < depth; ++d) {
    std::vector<TreePath> next;
    for (const TreePath& path : level) {
      draft.Add(path, testing::MarginalsOf({probabilities}));
      for (size_t rank = 0; rank < probabilities.size(); ++rank) {
        next.push_back(path);
        next.back().push_back(static_cast<TokenId>(rank));
      }
    }
    level = std::move(next);
  }
  return draft;
}

TEST(DynaTreeTest, ConfidenceChoosesTheNumberOfBranches) {
  const DynaTreeShape shape = {.base_depth = 1, .max_depth = 1};
  const auto children = [&shape](const std::vector<double>& probabilities) {
    CycleDraft draft = Everywhere(probabilities, 2);
    return GrowDynaTree(kPaperRoot, testing::Borrow(DraftCandidates(draft)), shape).nodes() - 1;
  };
  EXPECT_EQ(children({0.95, 0.03, 0.01, 0.01}), 1);
  EXPECT_EQ(children({0.6, 0.2, 0.1, 0.1}), 2);
  EXPECT_EQ(children({0.3, 0.3, 0.2, 0.2}), 3);
}

TEST(DynaTreeTest, OnlyLikelyPathsGrowBelowTheBaseDepth) {
  // The path of first tokens keeps 0.8 per level: 0.8, 0.64, 0.51, 0.41, 0.33.
  CycleDraft draft = Everywhere({0.8, 0.2}, 6);
  const DynaTreeShape shape = {.min_branches = 1,
                               .mid_branches = 1,
                               .max_branches = 1,
                               .base_depth = 1,
                               .max_depth = 5,
                               .stop = 0.01,
                               .deep = 0.5};
  // u0 (0.8) is above the base depth. Its child (0.64) and grandchild (0.51) are likely enough.
  EXPECT_EQ(GrowDynaTree(kPaperRoot, testing::Borrow(DraftCandidates(draft)), shape).nodes(), 4);
}

TEST(DynaTreeTest, AsksOnlyForTheNodesThatItExpands) {
  CycleDraft draft;
  draft.set_expands_nodes(true);
  draft.Add({}, testing::MarginalsOf({{0.6, 0.3}}));
  const DraftTree tree =
      GrowDynaTree(kPaperRoot, testing::Borrow(DraftCandidates(draft)), DynaTreeShape());
  EXPECT_EQ(tree.nodes(), 1);  // The second token is not u0.
  EXPECT_THAT(draft.TakeMissing(), ElementsAre(TreePath{0}));
}

}  // namespace
}  // namespace bastion
