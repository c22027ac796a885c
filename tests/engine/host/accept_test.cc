// Tests the acceptance walk on the CPU.
#include "engine/host/accept.h"

#include <numeric>
#include <vector>

#include "common/stages/draft_tree.h"
#include "common/stages/stage_data.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion::nn {
namespace {

using ::testing::IsEmpty;

// Walks one tree. `choices` [rows]: the target's next token after each row.
Acceptance Accept(const DraftTree& tree, const std::vector<int32_t>& choices) {
  const std::vector<int32_t> used = {tree.rows(), 1}, first_rows = {0, tree.rows()};
  std::vector<int32_t> parents, paths(tree.rows());
  for (const NodeIndex parent : tree.parents()) parents.push_back(parent.value());
  const std::vector<TokenId> tokens = tree.tokens();
  kernels::Rows rows;
  rows.used = used.data();
  rows.tokens = tokens.data();
  rows.parents = parents.data();
  rows.first_rows = first_rows.data();
  kernels::WalkResult result;
  AcceptTrees(rows, {choices.data(), &result, paths.data(), &result, paths.data()});
  Acceptance acceptance;
  for (int i = 0; i < result.path_length; ++i) acceptance.path.push_back(NodeIndex::Of(paths[i]));
  acceptance.next = result.next;
  return acceptance;
}

// root(5) ─┬─ 10 (1) ─┬─ 20 (3) ─── 30 (5)
//          │          └─ 21 (4)
//          └─ 11 (2) ─── 20 (6)
DraftTree Sample() {
  DraftTree tree(5);
  tree.Add(0, 10, -1);
  tree.Add(0, 11, -1);
  tree.Add(1, 20, -2);
  tree.Add(1, 21, -2);
  tree.Add(3, 30, -3);
  tree.Add(2, 20, -3);
  return tree;
}

TEST(AcceptTest, ARootAloneCommitsItselfAndReturnsTheChoice) {
  const Acceptance acceptance = Accept(DraftTree(5), {77});
  EXPECT_THAT(acceptance.path, IsEmpty());
  EXPECT_EQ(acceptance.next, 77);
  EXPECT_EQ(acceptance.committed_length(), 1);
}

TEST(AcceptTest, ReturnsTheChoiceAfterTheRootIfNoChildMatches) {
  const Acceptance acceptance = Accept(Sample(), {99, 20, 20, 30, 1, 2, 3});
  EXPECT_THAT(acceptance.path, IsEmpty());
  EXPECT_EQ(acceptance.next, 99);
}

TEST(AcceptTest, AcceptsAWholePath) {
  const Acceptance acceptance = Accept(Sample(), {10, 20, 0, 30, 0, 40, 0});
  EXPECT_EQ(acceptance.path, (std::vector<NodeIndex>{1, 3, 5}));
  EXPECT_EQ(acceptance.next, 40);
  EXPECT_EQ(acceptance.committed_length(), 4);
}

TEST(AcceptTest, StopsWhereNoChildMatches) {
  const Acceptance acceptance = Accept(Sample(), {10, 21, 0, 30, 88, 40, 0});
  EXPECT_EQ(acceptance.path, (std::vector<NodeIndex>{1, 4}));
  EXPECT_EQ(acceptance.next, 88);
}

TEST(AcceptTest, FollowsTheSecondBranch) {
  const Acceptance acceptance = Accept(Sample(), {11, 20, 20, 30, 0, 0, 42});
  EXPECT_EQ(acceptance.path, (std::vector<NodeIndex>{2, 6}));
  EXPECT_EQ(acceptance.next, 42);
}

TEST(AcceptTest, FollowsAChain) {
  DraftTree chain(1);
  chain.Add(0, 2, -1);
  chain.Add(1, 3, -1);
  chain.Add(2, 4, -1);
  EXPECT_EQ(Accept(chain, {2, 3, 9, 4}).path, (std::vector<NodeIndex>{1, 2}));
  EXPECT_EQ(Accept(chain, {2, 3, 9, 4}).next, 9);
  EXPECT_EQ(Accept(chain, {2, 3, 4, 7}).path, (std::vector<NodeIndex>{1, 2, 3}));
}

TEST(AcceptTest, ChoicesOfRowsOffThePathAreIgnored) {
  // Row 2 chooses its own child, but row 2 itself was not chosen.
  const Acceptance acceptance = Accept(Sample(), {10, 99, 20, 30, 10, 10, 10});
  EXPECT_EQ(acceptance.path, (std::vector<NodeIndex>{1}));
  EXPECT_EQ(acceptance.next, 99);
}

TEST(AcceptTest, ATokenOfAnotherBranchIsNotAccepted) {
  // Token 21 is a child of row 1 only.
  const Acceptance acceptance = Accept(Sample(), {11, 0, 21, 0, 0, 0, 0});
  EXPECT_EQ(acceptance.path, (std::vector<NodeIndex>{2}));
  EXPECT_EQ(acceptance.next, 21);
}

TEST(AcceptTest, ATreeWithARowWithoutAChoiceKeepsNothing) {
  const Acceptance acceptance = Accept(Sample(), {10, 20, -1, 30, 0, 40, 0});
  EXPECT_THAT(acceptance.path, IsEmpty());
  EXPECT_EQ(acceptance.next, -1);
}

TEST(AcceptTest, KeptRowsOfSeveralTreesFollowEachOther) {
  // Two chains of two rows, and one tree without a choice between them.
  const std::vector<int32_t> used = {6, 3}, first_rows = {0, 2, 4, 6};
  const std::vector<int32_t> tokens = {1, 2, 1, 2, 1, 2}, parents = {-1, 0, -1, 0, -1, 0};
  const std::vector<int32_t> choices = {2, 9, -1, 0, 7, 7};
  kernels::Rows rows;
  rows.used = used.data();
  rows.tokens = tokens.data();
  rows.parents = parents.data();
  rows.first_rows = first_rows.data();
  std::vector<kernels::WalkResult> results(3);
  std::vector<int32_t> paths(6);
  AcceptTrees(rows, {choices.data(), results.data(), paths.data(), results.data(), paths.data()});
  EXPECT_EQ(results[0].path_length, 1);
  EXPECT_EQ(results[0].next, 9);
  EXPECT_EQ(results[1].path_length, -1);
  EXPECT_EQ(results[1].first_kept, 2);
  EXPECT_EQ(results[2].path_length, 0);
  EXPECT_EQ(results[2].first_kept, 2);
}

}  // namespace
}  // namespace bastion::nn
