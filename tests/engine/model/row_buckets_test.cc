#include "engine/model/row_buckets.h"

#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion::nn {
namespace {

using ::testing::ElementsAre;

TEST(RowBucketsTest, EndAtTheMaximum) {
  EXPECT_THAT(RowBuckets(1), ElementsAre(1));
  EXPECT_THAT(RowBuckets(16), ElementsAre(1, 2, 4, 8, 16));
  EXPECT_THAT(RowBuckets(40), ElementsAre(1, 2, 4, 8, 16, 32, 40));
  EXPECT_THAT(TreeRowBuckets(17), ElementsAre(1, 2, 4, 8, 16, 17));
  EXPECT_THAT(TreeRowBuckets(64), ElementsAre(1, 2, 4, 8, 16, 17, 32, 33, 48, 64));
}

TEST(RowBucketsTest, TheBudgetsOfThePapersAreNotPadded) {
  // The GPU engine rounds --max_rows 1025 up to a multiple of 64.
  for (const int max_rows : {1025, 1088}) {
    const std::vector<int> buckets = TreeRowBuckets(max_rows);
    EXPECT_TRUE(std::is_sorted(buckets.begin(), buckets.end()));
    EXPECT_EQ(std::adjacent_find(buckets.begin(), buckets.end()), buckets.end());
    EXPECT_EQ(buckets.back(), max_rows);
    for (const int nodes : {16, 32, 64, 128, 256, 512, 1024}) {
      EXPECT_EQ(BucketOf(buckets, nodes + 1), nodes + 1) << max_rows;
      EXPECT_EQ(BucketOf(buckets, nodes), nodes) << max_rows;
    }
  }
}

TEST(RowBucketsTest, PaddingNeverDoublesALargeStep) {
  const std::vector<int> buckets = TreeRowBuckets(1088);
  for (int rows = 32; rows <= 1088; ++rows) {
    EXPECT_GE(BucketOf(buckets, rows), rows);
    EXPECT_LE(BucketOf(buckets, rows), 3 * rows / 2) << rows;
  }
}

}  // namespace
}  // namespace bastion::nn
