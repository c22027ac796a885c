// Strong indices: what converts and what does not.
#include "common/base/strong_index.h"

#include <type_traits>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "common/base/ids.h"
#include "gtest/gtest.h"

namespace bastion {
namespace {

using OtherIndex = StrongIndex<struct OtherKind>;

// Calls with swapped arguments do not compile.
static_assert(!std::is_convertible_v<NodeIndex, TokenId>);
static_assert(!std::is_convertible_v<NodeIndex, OtherIndex>);
static_assert(!std::is_constructible_v<NodeIndex, OtherIndex>);
static_assert(!std::is_convertible_v<NodeIndex, bool>);
static_assert(sizeof(NodeIndex) == sizeof(int32_t));

TEST(StrongIndexTest, CountsAndCompares) {
  NodeIndex node = 3;
  EXPECT_EQ(node, 3);
  EXPECT_EQ((node + 2).value(), 5);
  EXPECT_EQ(node - 1, NodeIndex(2));
  EXPECT_EQ(NodeIndex(7) - node, 4);
  EXPECT_EQ(++node, NodeIndex(4));
  node += 2;
  EXPECT_LT(node, 7);
  EXPECT_GT(node, NodeIndex(5));
  EXPECT_EQ(NodeIndex(), 0);
  EXPECT_EQ(NodeIndex::Of(size_t{9}), 9);
}

TEST(StrongIndexTest, IsASubscript) {
  const std::vector<int> values = {5, 6, 7};
  EXPECT_EQ(values[NodeIndex(2)], 7);
}

TEST(StrongIndexTest, IsAKeyOfAHashTable) {
  const absl::flat_hash_set<NodeIndex> nodes = {0, 1, kNoNode};
  EXPECT_TRUE(nodes.contains(NodeIndex::Of(1)));
  EXPECT_TRUE(nodes.contains(kNoNode));
  EXPECT_FALSE(nodes.contains(NodeIndex(2)));
}

}  // namespace
}  // namespace bastion
