#include "engine/model/page_pool.h"

#include <random>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion::nn {
namespace {

using kernels::kPageTokens;
using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST(PagePoolTest, TokensAreRoundedUpToPages) {
  EXPECT_EQ(PagesFor(0), 0);
  EXPECT_EQ(PagesFor(1), 1);
  EXPECT_EQ(PagesFor(kPageTokens), 1);
  EXPECT_EQ(PagesFor(kPageTokens + 1), 2);
}

TEST(PagePoolTest, ReserveGrowsATableToCoverTheTokens) {
  PagePool pool(4);
  PageTable table;
  ASSERT_TRUE(pool.Reserve(table, 1).ok());
  EXPECT_THAT(table.pages, SizeIs(1));
  ASSERT_TRUE(pool.Reserve(table, kPageTokens).ok());
  EXPECT_THAT(table.pages, SizeIs(1)) << "still covered";
  const int32_t first = table.pages[0];
  ASSERT_TRUE(pool.Reserve(table, 3 * kPageTokens).ok());
  EXPECT_THAT(table.pages, SizeIs(3));
  EXPECT_EQ(table.pages[0], first) << "tokens stay where they are";
  EXPECT_EQ(pool.free_pages(), 1);
}

TEST(PagePoolTest, ReservingFewerTokensKeepsThePages) {
  PagePool pool(4);
  PageTable table;
  ASSERT_TRUE(pool.Reserve(table, 3 * kPageTokens).ok());
  ASSERT_TRUE(pool.Reserve(table, 1).ok());
  EXPECT_THAT(table.pages, SizeIs(3));
}

TEST(PagePoolTest, AFullPoolLeavesTheTableUnchangedAndSaysHowManyPagesAreMissing) {
  PagePool pool(2);
  PageTable table;
  ASSERT_TRUE(pool.Reserve(table, 1).ok());
  const absl::Status full = pool.Reserve(table, 3 * kPageTokens);
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(full.message(), HasSubstr("2 more pages of 16 tokens"));
  EXPECT_THAT(full.message(), HasSubstr("only 1 of 2 are free"));
  EXPECT_THAT(full.message(), HasSubstr("--kv_tokens"));
  EXPECT_THAT(table.pages, SizeIs(1));
  EXPECT_EQ(pool.free_pages(), 1);
}

TEST(PagePoolTest, TheLastPageCanBeReserved) {
  PagePool pool(2);
  PageTable table;
  ASSERT_TRUE(pool.Reserve(table, 2 * kPageTokens).ok());
  EXPECT_EQ(pool.free_pages(), 0);
  EXPECT_TRUE(pool.Reserve(table, 2 * kPageTokens).ok());
  PageTable other;
  EXPECT_FALSE(pool.Reserve(other, 1).ok());
}

TEST(PagePoolTest, ShrinkReturnsThePagesPastTheTokens) {
  PagePool pool(4);
  PageTable table;
  ASSERT_TRUE(pool.Reserve(table, 4 * kPageTokens).ok());
  pool.Shrink(table, kPageTokens + 1);
  EXPECT_THAT(table.pages, SizeIs(2));
  EXPECT_EQ(pool.free_pages(), 2);
  pool.Shrink(table, 4 * kPageTokens);
  EXPECT_THAT(table.pages, SizeIs(2)) << "Shrink never grows a table";
  pool.Shrink(table, 0);
  EXPECT_THAT(table.pages, SizeIs(0));
  EXPECT_EQ(pool.free_pages(), 4);
}

TEST(PagePoolTest, ASlotIsPageTimesPageTokensPlusOffset) {
  PageTable table;
  table.pages = {7, 2};
  EXPECT_EQ(table.slot(0), 7 * kPageTokens);
  EXPECT_EQ(table.slot(kPageTokens - 1), 8 * kPageTokens - 1);
  EXPECT_EQ(table.slot(kPageTokens), 2 * kPageTokens);
}

// Many sequences grow, shrink and end. No page ever belongs to two sequences, and no page is lost.
TEST(PagePoolTest, NoPageIsSharedOrLost) {
  constexpr int kPages = 64;
  PagePool pool(kPages);
  std::vector<PageTable> tables(9);
  std::mt19937 random(5);
  for (int step = 0; step < 5000; ++step) {
    PageTable& table = tables[random() % tables.size()];
    const int tokens = static_cast<int>(random() % (20 * kPageTokens));
    if (random() % 2 == 0) {
      (void)pool.Reserve(table, tokens);
    } else {
      pool.Shrink(table, tokens);
    }
    std::set<int32_t> used;
    size_t held = 0;
    for (const PageTable& each : tables) {
      held += each.pages.size();
      used.insert(each.pages.begin(), each.pages.end());
    }
    ASSERT_EQ(used.size(), held) << "a page belongs to two sequences";
    ASSERT_EQ(held + pool.free_pages(), static_cast<size_t>(kPages));
    ASSERT_TRUE(used.empty() || (*used.begin() >= 0 && *used.rbegin() < kPages));
  }
}

}  // namespace
}  // namespace bastion::nn
