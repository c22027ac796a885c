// Compares EAGLE-3 drafters with a simple implementation (eagle_goldens.py), in fp32 on tiny random
// checkpoints: over three cycles, on the CPU and on a GPU.
#include "tests/parity/stateful_parity_fixture.h"

namespace bastion {
namespace {

// The tree of one golden draft.
struct GoldenTree {
  Frontier frontier;
  std::vector<std::vector<TokenId>> paths;  // One per row, the root first.
  std::vector<float> logits;                // [rows, D]

  // The rows at `depth`.
  [[nodiscard]] std::vector<int> Level(size_t depth) const {
    std::vector<int> rows;
    for (size_t row = 0; row < paths.size(); ++row) {
      if (paths[row].size() == depth) rows.push_back(static_cast<int>(row));
    }
    return rows;
  }
};

class EagleParityTest : public testing::StatefulParityFixture {
 protected:
  [[nodiscard]] std::vector<GoldenTree> Trees() const {
    std::vector<GoldenTree> trees;
    for (const Frontier& frontier : Frontiers()) {
      const std::string round = std::to_string(trees.size());
      GoldenTree& tree = trees.emplace_back();
      tree.frontier = frontier;
      tree.logits = golden_.Floats("draft_logits_" + round);
      const std::vector<TokenId> tokens = golden_.Integers("draft_tokens_" + round);
      const std::vector<TokenId> parents = golden_.Integers("draft_parents_" + round);
      for (size_t row = 0; row < tokens.size(); ++row) {
        std::vector<TokenId> path;
        if (row > 0) {
          path = tree.paths[parents[row]];
          path.push_back(tokens[row]);
        }
        tree.paths.push_back(std::move(path));
      }
    }
    return trees;
  }

  std::vector<Marginals> ExpandRows(const GoldenTree& tree, const std::vector<int>& rows) {
    std::vector<std::vector<TokenId>> paths;
    for (const int row : rows) paths.push_back(tree.paths[row]);
    return Expand(tree.frontier, std::move(paths));
  }

  // Expands all trees level by level.
  void ExpectAllTrees() {
    for (const GoldenTree& tree : Trees()) {
      for (size_t depth = 0; !tree.Level(depth).empty(); ++depth) {
        const std::vector<int> rows = tree.Level(depth);
        const std::vector<Marginals> marginals = ExpandRows(tree, rows);
        ASSERT_EQ(marginals.size(), rows.size());
        for (size_t i = 0; i < rows.size(); ++i) {
          ASSERT_EQ(marginals[i].positions, 1) << "row " << rows[i];
          ExpectReference(marginals[i], 0, tree.logits.data() + rows[i] * ids_.size());
        }
      }
    }
  }
};

TEST_P(EagleParityTest, DraftsMatchTheReferenceOnTheCpu) {
  OpenOnCpu();
  ExpectAllTrees();
}

TEST_P(EagleParityTest, DraftsMatchTheReferenceOnAGpu) {
  OpenOnGpu();
  if (engine_ != nullptr) ExpectAllTrees();
}

TEST_P(EagleParityTest, AWholeTreeInOneRoundHasTheSameBitsAsLevelByLevel) {
  OpenOnCpu();
  const GoldenTree tree = Trees()[0];
  std::vector<int> all(tree.paths.size());
  std::iota(all.begin(), all.end(), 0);
  const std::vector<Marginals> at_once = ExpandRows(tree, all);
  // The root is drafted again from features that the engine has kept.
  for (size_t depth = 0; !tree.Level(depth).empty(); ++depth) {
    const std::vector<int> rows = tree.Level(depth);
    const std::vector<Marginals> level = ExpandRows(tree, rows);
    for (size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(level[i], at_once[rows[i]]);
  }
}

INSTANTIATE_TEST_SUITE_P(Goldens, EagleParityTest, ::testing::ValuesIn(testing::EagleGoldens()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace bastion
