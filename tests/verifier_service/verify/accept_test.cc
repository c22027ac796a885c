#include "verifier_service/verify/accept.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion::verifier {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

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
  EXPECT_THAT(acceptance.path, ElementsAre(1, 3, 5));
  EXPECT_EQ(acceptance.next, 40);
  EXPECT_EQ(acceptance.committed_length(), 4);
}

TEST(AcceptTest, StopsWhereNoChildMatches) {
  const Acceptance acceptance = Accept(Sample(), {10, 21, 0, 30, 88, 40, 0});
  EXPECT_THAT(acceptance.path, ElementsAre(1, 4));
  EXPECT_EQ(acceptance.next, 88);
}

TEST(AcceptTest, FollowsTheSecondBranch) {
  const Acceptance acceptance = Accept(Sample(), {11, 20, 20, 30, 0, 0, 42});
  EXPECT_THAT(acceptance.path, ElementsAre(2, 6));
  EXPECT_EQ(acceptance.next, 42);
}

TEST(AcceptTest, FollowsAChain) {
  DraftTree chain(1);
  chain.Add(0, 2, -1);
  chain.Add(1, 3, -1);
  chain.Add(2, 4, -1);
  EXPECT_THAT(Accept(chain, {2, 3, 9, 4}).path, ElementsAre(1, 2));
  EXPECT_EQ(Accept(chain, {2, 3, 9, 4}).next, 9);
  EXPECT_THAT(Accept(chain, {2, 3, 4, 7}).path, ElementsAre(1, 2, 3));
}

TEST(AcceptTest, ChoicesOfRowsOffThePathAreIgnored) {
  // Row 2 chooses its own child, but row 2 itself was not chosen.
  const Acceptance acceptance = Accept(Sample(), {10, 99, 20, 30, 10, 10, 10});
  EXPECT_THAT(acceptance.path, ElementsAre(1));
  EXPECT_EQ(acceptance.next, 99);
}

TEST(AcceptTest, ATokenOfAnotherBranchIsNotAccepted) {
  // Token 21 is a child of row 1 only.
  const Acceptance acceptance = Accept(Sample(), {11, 0, 21, 0, 0, 0, 0});
  EXPECT_THAT(acceptance.path, ElementsAre(2));
  EXPECT_EQ(acceptance.next, 21);
}

TEST(AcceptTest, AChoiceForEveryRowIsRequired) {
  EXPECT_DEATH((void)Accept(Sample(), {1, 2}), "2 vs 7");
}

}  // namespace
}  // namespace bastion::verifier
