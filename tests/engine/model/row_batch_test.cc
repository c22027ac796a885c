#include "engine/model/row_batch.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion::nn {
namespace {

using kernels::kPageTokens;
using kernels::RowMask;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(RowBatchTest, AnEmptyBatchHasNoRows) {
  const RowBatch batch;
  EXPECT_EQ(batch.rows(), 0);
  EXPECT_THAT(batch.spans(), IsEmpty());
}

TEST(RowBatchTest, ARunFollowsTheCachedTokens) {
  const PageTable table = {{9, 4}};
  RowBatch batch;
  batch.AddRun({&table, kPageTokens - 1, RowMask::kCausal}, {50, 51, 52});
  EXPECT_THAT(batch.tokens(), ElementsAre(50, 51, 52));
  EXPECT_THAT(batch.positions(), ElementsAre(kPageTokens - 1, kPageTokens, kPageTokens + 1));
  EXPECT_THAT(batch.slots(),
              ElementsAre(10 * kPageTokens - 1, 4 * kPageTokens, 4 * kPageTokens + 1))
      << "the run crosses a page";
  ASSERT_EQ(batch.spans().size(), 1u);
  EXPECT_EQ(batch.spans()[0].first_row, 0);
  EXPECT_EQ(batch.spans()[0].rows, 3);
  EXPECT_EQ(batch.spans()[0].cached, kPageTokens - 1);
  EXPECT_EQ(batch.spans()[0].pages, table.pages.data());
  EXPECT_EQ(batch.spans()[0].mask, RowMask::kCausal);
}

// Root 0 with children 1 and 2; node 3 is a child of 2. Siblings share a position, not a slot.
TEST(RowBatchTest, TreeRowsArePositionedByDepth) {
  const PageTable table = {{0}};
  const std::vector<uint64_t> ancestors = {0b0001, 0b0011, 0b0101, 0b1101};
  RowBatch batch;
  batch.AddTree({&table, 5, RowMask::kCausal}, {10, 11, 12, 13}, {0, 1, 1, 2}, ancestors);
  EXPECT_THAT(batch.positions(), ElementsAre(5, 6, 6, 7));
  EXPECT_THAT(batch.slots(), ElementsAre(5, 6, 7, 8));
  const kernels::AttentionSpan& span = batch.spans()[0];
  EXPECT_EQ(span.mask, RowMask::kAncestors) << "regardless of the mask in the caller's span";
  EXPECT_EQ(span.words, 1);
  EXPECT_EQ(std::vector<uint64_t>(span.ancestors, span.ancestors + 4), ancestors);
}

TEST(RowBatchTest, ATreeOfMoreThan64RowsHasSeveralWordsPerRow) {
  constexpr int kRows = 70;
  const PageTable table = {{0, 1, 2, 3, 4}};
  std::vector<uint64_t> ancestors(kRows * 2);
  RowBatch batch;
  batch.AddTree({&table, 0, RowMask::kCausal}, std::vector<TokenId>(kRows, 1),
                std::vector<int>(kRows, 0), ancestors);
  EXPECT_EQ(batch.spans()[0].words, 2);
}

TEST(RowBatchTest, SequencesFollowEachOther) {
  const PageTable first = {{0}}, second = {{1}}, third = {{2}};
  RowBatch batch;
  batch.AddRun({&first, 0, RowMask::kCausal}, {1, 2});
  batch.AddTree({&second, 3, RowMask::kCausal}, {3, 4}, {0, 1}, {0b01, 0b11});
  batch.AddRun({&third, 7, RowMask::kFull}, {5});
  EXPECT_EQ(batch.rows(), 5);
  EXPECT_THAT(batch.positions(), ElementsAre(0, 1, 3, 4, 7));
  EXPECT_EQ(batch.spans()[1].first_row, 2);
  EXPECT_EQ(batch.spans()[2].first_row, 4);
  EXPECT_EQ(batch.spans()[2].mask, RowMask::kFull);
}

// Spans point into the batch's copies of the bits, which adding more trees must not move.
TEST(RowBatchTest, AncestorBitsDoNotMoveAsTheBatchGrows) {
  const PageTable table = {{0}};
  RowBatch batch;
  for (uint64_t tree = 0; tree < 40; ++tree) {
    batch.AddTree({&table, 0, RowMask::kCausal}, {1}, {0}, {tree});
  }
  for (uint64_t tree = 0; tree < 40; ++tree) EXPECT_EQ(*batch.spans()[tree].ancestors, tree);
}

TEST(RowBatchDeathTest, ARunCannotHaveATreeMask) {
  const PageTable table = {{0}};
  RowBatch batch;
  EXPECT_DEATH(batch.AddRun({&table, 0, RowMask::kAncestors}, {1}), "no ancestor bits");
}

}  // namespace
}  // namespace bastion::nn
