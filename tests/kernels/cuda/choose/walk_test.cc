#include <random>

#include "tests/kernels/cuda/choose/walk_test_support.h"
#include "tests/kernels/cuda/device_test_support.h"

namespace bastion::kernels::cuda {
namespace {

class WalkTest : public DeviceTest {
 protected:
  void ExpectWalks(const std::vector<Tree>& trees) {
    EXPECT_EQ(DeviceWalks(trees, *stream_), HostWalks(trees));
  }
};

TEST_F(WalkTest, AcceptsNoneAllOrPartOfAChain) {
  Tree none = Chain(5), all = Chain(7), part = Chain(9);
  none.choices[0] = 99;
  for (int i = 0; i < 6; ++i) all.choices[i] = all.tokens[i + 1];
  for (int i = 0; i < 4; ++i) part.choices[i] = part.tokens[i + 1];
  const std::vector<Walked> expected = HostWalks({none, all, part});
  EXPECT_EQ(expected[0].path.size(), 0u);
  EXPECT_EQ(expected[1].path.size(), 6u);
  EXPECT_EQ(expected[2].path.size(), 4u);
  ExpectWalks({none, all, part});
  ExpectWalks({Chain(1)});
}

TEST_F(WalkTest, WalksRandomTreesOfManySizes) {
  std::mt19937 random(1);
  size_t longest = 0;
  for (int round = 0; round < 20; ++round) {
    std::vector<Tree> trees;
    for (const int rows : {1, 2, 33, 64, 65, 256, 32, 31}) {
      trees.push_back(RandomTree(rows, random));
      longest = std::max(longest, HostWalks({trees.back()})[0].path.size());
    }
    ExpectWalks(trees);
  }
  EXPECT_GT(longest, 6u);
}

TEST_F(WalkTest, WalksLongChainsAcrossBlocksOfRows) {
  for (const int rows : {33, 64, 200}) {
    Tree chain = Chain(rows);
    for (int i = 0; i + 1 < rows; ++i) chain.choices[i] = chain.tokens[i + 1];
    EXPECT_EQ(HostWalks({chain})[0].path.size(), size_t(rows) - 1);
    ExpectWalks({Chain(3), chain});
  }
}

TEST_F(WalkTest, WalksMoreTreesThanWarps) {
  std::mt19937 random(2);
  std::vector<Tree> trees;
  for (int b = 0; b < 70; ++b) trees.push_back(RandomTree(1 + b % 9, random));
  ExpectWalks(trees);
}

TEST_F(WalkTest, FollowsTheFirstOfEqualSiblings) {
  const Tree twins = {{-1, 0, 0, 1, 2}, {7, 20, 20, 21, 21}, {20, 21, 21, 4, 5}};
  EXPECT_EQ(HostWalks({twins})[0].path, (std::vector<int32_t>{1, 3}));
  ExpectWalks({twins});
}

TEST_F(WalkTest, ATreeWithAMissingChoiceKeepsNoRows) {
  std::mt19937 random(3);
  std::vector<Tree> trees;
  for (const int rows : {4, 40, 40, 6}) trees.push_back(RandomTree(rows, random));
  trees[1].choices[35] = -1;  // The path need not reach this row.
  std::vector<Walked> expected = HostWalks(trees);
  EXPECT_EQ(expected[1].length, -1);
  EXPECT_EQ(expected[2].first_kept, expected[1].first_kept);
  ExpectWalks(trees);
  trees[1].choices[0] = trees[3].choices[2] = -1;
  ExpectWalks(trees);
}

}  // namespace
}  // namespace bastion::kernels::cuda
