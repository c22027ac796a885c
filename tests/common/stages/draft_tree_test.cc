#include "common/stages/draft_tree.h"

#include <cmath>
#include <limits>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr TokenId kRoot = 5;
constexpr int kVocabulary = 100;

// root(5) ─┬─ 10 ─┬─ 20
//          │      └─ 21
//          └─ 11
DraftTree Sample() {
  DraftTree tree(kRoot);
  const NodeIndex a = tree.Add(0, 10, std::log(0.5f));
  tree.Add(0, 11, std::log(0.25f));
  tree.Add(a, 20, std::log(0.25f));
  tree.Add(a, 21, std::log(0.125f));
  return tree;
}

TEST(DraftTreeTest, ANewTreeHasOnlyTheRoot) {
  const DraftTree tree(kRoot);
  EXPECT_EQ(tree.rows(), 1);
  EXPECT_EQ(tree.nodes(), 0);
  EXPECT_EQ(tree.token(0), kRoot);
  EXPECT_EQ(tree.parent(0), kNoNode);
  EXPECT_EQ(tree.depth(0), 0);
  EXPECT_EQ(tree.ExpectedCommittedLength(), 1.0);
  EXPECT_TRUE(tree.IsChain());
  EXPECT_TRUE(tree.Validate(kVocabulary).ok());
}

TEST(DraftTreeTest, AddKeepsOrderDepthAndScores) {
  const DraftTree tree = Sample();
  EXPECT_THAT(tree.tokens(), ElementsAre(kRoot, 10, 11, 20, 21));
  EXPECT_EQ(tree.parents(), (std::vector<NodeIndex>{kNoNode, 0, 0, 1, 1}));
  EXPECT_EQ(tree.depth(2), 1);
  EXPECT_EQ(tree.depth(4), 2);
  EXPECT_TRUE(tree.Validate(kVocabulary).ok());
  // 1 + 1/2 + 1/4 + 1/4 + 1/8.
  EXPECT_NEAR(tree.ExpectedCommittedLength(), 2.125, 1e-6);
}

TEST(DraftTreeTest, AddBelowAMissingParentAborts) {
  DraftTree tree(kRoot);
  EXPECT_DEATH(tree.Add(1, 2, 0.0f), "parent 1 of 1 rows");
  EXPECT_DEATH(tree.Add(kNoNode, 2, 0.0f), "parent -1");
}

TEST(DraftTreeTest, TruncateKeepsTheFirstNodes) {
  DraftTree tree = Sample();
  tree.Truncate(4);
  EXPECT_EQ(tree, Sample());
  tree.Truncate(2);
  EXPECT_EQ(tree.parents(), (std::vector<NodeIndex>{kNoNode, 0, 0}));
  tree.Truncate(0);
  EXPECT_EQ(tree, DraftTree(kRoot));
  EXPECT_DEATH(tree.Truncate(1), "1 of 0 nodes");
  EXPECT_DEATH(tree.Truncate(-1), "-1 of 0 nodes");
}

TEST(DraftTreeTest, ReserveDoesNotChangeTheTree) {
  DraftTree tree(kRoot);
  tree.Reserve(100);
  EXPECT_EQ(tree, DraftTree(kRoot));
}

TEST(DraftTreeTest, IsChainIsFalseWithTwoSiblings) {
  DraftTree tree(kRoot);
  tree.Add(0, 1, 0.0f);
  tree.Add(1, 2, 0.0f);
  EXPECT_TRUE(tree.IsChain());
  tree.Add(1, 3, 0.0f);
  EXPECT_FALSE(tree.IsChain());
}

TEST(DraftTreeTest, AncestorBitsHoldThePathOfEachRow) {
  // Rows 0 to 4. Bit 0 is the root.
  EXPECT_THAT(Sample().AncestorBits(), ElementsAre(0b00001, 0b00011, 0b00101, 0b01011, 0b10011));
}

TEST(DraftTreeTest, AncestorBitsSpanSeveralWords) {
  std::mt19937 random(1);
  DraftTree tree(kRoot);
  for (int i = 0; i < 200; ++i) {
    tree.Add(NodeIndex::Of(random() % tree.rows()), 0, 0.0f);
  }
  const int words = 4;  // ceil(201 / 64)
  const std::vector<uint64_t> bits = tree.AncestorBits();
  ASSERT_EQ(bits.size(), static_cast<size_t>(tree.rows()) * words);
  for (NodeIndex i = 0; i < tree.rows(); ++i) {
    std::vector<uint64_t> expected(words, 0);
    for (NodeIndex a = i; a != kNoNode; a = tree.parent(a)) {
      expected[a.value() / 64] |= 1ull << (a.value() % 64);
    }
    for (int w = 0; w < words; ++w) EXPECT_EQ(bits[i.value() * words + w], expected[w]);
  }
}

TEST(DraftTreeTest, ValidateReportsATokenOutsideTheVocabulary) {
  DraftTree tree = Sample();
  EXPECT_EQ(tree.Validate(21).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(tree.Validate(21).message(), HasSubstr("node 4: token 21"));
  EXPECT_THAT(DraftTree(-1).Validate(kVocabulary).message(), HasSubstr("node 0: token -1"));
}

TEST(DraftTreeTest, ValidateReportsSiblingsWithTheSameToken) {
  DraftTree tree = Sample();
  tree.Add(2, 20, -9.0f);  // The same token below a different parent is valid.
  EXPECT_TRUE(tree.Validate(kVocabulary).ok());
  tree.Add(1, 20, -9.0f);
  EXPECT_THAT(tree.Validate(kVocabulary).message(),
              HasSubstr("node 6: parent 1 already has a child with token 20"));
}

TEST(DraftTreeTest, ValidateReportsAnIncreasingScore) {
  DraftTree tree = Sample();
  tree.Add(1, 30, std::log(0.6f));
  EXPECT_THAT(tree.Validate(kVocabulary).message(), HasSubstr("node 5: log score"));
}

TEST(DraftTreeTest, ValidateRejectsANanScore) {
  DraftTree tree = Sample();
  tree.Add(1, 30, std::numeric_limits<float>::quiet_NaN());
  EXPECT_FALSE(tree.Validate(kVocabulary).ok());
}

TEST(DraftTreeTest, ValidateRejectsAPositiveScore) {
  DraftTree tree(kRoot);
  tree.Add(0, 30, 0.5f);
  EXPECT_FALSE(tree.Validate(kVocabulary).ok());
}

}  // namespace
}  // namespace bastion
