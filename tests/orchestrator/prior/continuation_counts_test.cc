#include "orchestrator/prior/continuation_counts.h"

#include <limits>
#include <map>
#include <random>

#include "gtest/gtest.h"

namespace bastion {
namespace {

std::map<TokenId, int> CountsAfter(const ContinuationCounts& counts, std::vector<TokenId> context) {
  const Continuations found = counts.After(context);
  std::map<TokenId, int> by_token;
  for (size_t i = 0; i < found.tokens.size(); ++i) by_token[found.tokens[i]] = found.counts[i];
  return by_token;
}

TEST(ContinuationCountsTest, CountsTheContinuationsOfEachContext) {
  ContinuationCounts counts(1 << 10);
  counts.Add({5}, 7);
  counts.Add({5}, 7);
  counts.Add({5}, 8);
  counts.Add({5, 6}, 9);
  EXPECT_EQ(CountsAfter(counts, {5}), (std::map<TokenId, int>{{7, 2}, {8, 1}}));
  EXPECT_EQ(CountsAfter(counts, {5, 6}), (std::map<TokenId, int>{{9, 1}}));
  EXPECT_EQ(counts.After({5}).total, 3);
}

TEST(ContinuationCountsTest, UnknownContextIsEmpty) {
  ContinuationCounts counts(1 << 10);
  counts.Add({5, 6}, 7);
  EXPECT_EQ(counts.After({6, 5}).total, 0);
  EXPECT_EQ(counts.After({6}).total, 0);
  EXPECT_TRUE(counts.After({5}).tokens.empty());
}

TEST(ContinuationCountsTest, FrequentContinuationsStayAndRareOnesAreReplaced) {
  ContinuationCounts counts(1 << 10);
  for (int i = 0; i < 50; ++i) counts.Add({1}, 3);
  for (TokenId token = 100; token < 200; ++token) counts.Add({1}, token);
  const std::map<TokenId, int> kept = CountsAfter(counts, {1});
  EXPECT_EQ(kept.size(), ContinuationCounts::kWidth);
  EXPECT_EQ(kept.at(3), 50);
  EXPECT_EQ(counts.After({1}).total, 150);
}

TEST(ContinuationCountsTest, AFullCounterHalvesAllCountsOfItsContext) {
  ContinuationCounts counts(1 << 6);
  for (int i = 0; i < 1000; ++i) counts.Add({1}, 4);
  for (int i = 0; i < 70000; ++i) counts.Add({1}, 3);
  const std::map<TokenId, int> kept = CountsAfter(counts, {1});
  EXPECT_EQ(kept.at(4), 500);
  EXPECT_GT(kept.at(3), 32000);
  EXPECT_NEAR(counts.After({1}).total, kept.at(3) + kept.at(4), 2);
}

TEST(ContinuationCountsTest, GrowthKeepsTheCounts) {
  ContinuationCounts counts(1 << 14);
  constexpr TokenId kContexts = 2000;
  for (TokenId token = 0; token < kContexts; ++token) counts.Add({token}, token + 1);
  int known = 0;
  for (TokenId token = 0; token < kContexts; ++token) {
    known += CountsAfter(counts, {token}).count(token + 1) > 0 ? 1 : 0;
  }
  EXPECT_GE(known, kContexts * 99 / 100);
  EXPECT_LE(counts.capacity(), size_t{1} << 14);
}

TEST(ContinuationCountsTest, MemoryIsBoundedAndTheMostUsedContextStays) {
  ContinuationCounts counts(1 << 8);
  std::mt19937 random(1);
  for (int i = 0; i < 100000; ++i) {
    const auto context = static_cast<TokenId>(random() % 1000000);
    counts.Add({context}, 1);
    counts.Add({-5}, 2);
  }
  EXPECT_EQ(counts.capacity(), size_t{1} << 8);
  EXPECT_GT(CountsAfter(counts, {-5})[2], 30000);
}

TEST(ContinuationCountsTest, ColumnsRestoreTheCounts) {
  ContinuationCounts counts(1 << 10);
  std::mt19937 random(2);
  for (int i = 0; i < 3000; ++i) {
    counts.Add({static_cast<TokenId>(random() % 50)}, static_cast<TokenId>(random() % 20));
  }
  auto read = ContinuationCounts::FromColumns(counts.ToColumns(), 1 << 10, 50);
  ASSERT_TRUE(read.ok()) << read.status();
  for (TokenId context = 0; context < 50; ++context) {
    EXPECT_EQ(CountsAfter(*read, {context}), CountsAfter(counts, {context}));
    EXPECT_EQ(read->After({context}).total, counts.After({context}).total);
  }
  // The restored object can still grow.
  for (TokenId context = 0; context < 2000; ++context) read->Add({context}, 1);
  EXPECT_EQ(CountsAfter(*read, {1999})[1], 1);
}

TEST(ContinuationCountsTest, DamagedColumnsAreRefused) {
  ContinuationCounts counts(1 << 6);
  for (TokenId token = 0; token < 9; ++token) counts.Add({1}, token);
  const ContinuationCounts::Columns good = counts.ToColumns();
  const auto refused = [](const ContinuationCounts::Columns& columns) {
    return ContinuationCounts::FromColumns(columns, 1 << 6, 9).status().code() ==
           absl::StatusCode::kInvalidArgument;
  };
  ASSERT_FALSE(refused(good));
  ContinuationCounts::Columns bad = good;
  bad.hashes.pop_back();
  EXPECT_TRUE(refused(bad));
  bad = good;
  bad.tokens.resize(bad.tokens.size() - 1);
  EXPECT_TRUE(refused(bad));
  bad = good;
  bad.sizes[3] = ContinuationCounts::kWidth + 1;
  EXPECT_TRUE(refused(bad));
  bad = good;
  bad.totals[3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(refused(bad));
  bad = good;
  bad.tokens[5] = 9;
  EXPECT_TRUE(refused(bad));
  EXPECT_TRUE(refused({}));
  EXPECT_EQ(
      ContinuationCounts::FromColumns(ContinuationCounts(1 << 9).ToColumns(), 1 << 6, 9).status(),
      absl::OkStatus());  // An empty object has capacity 64, which is within the bound.
}

TEST(ContinuationCountsTest, AnEmptyContextFailsACheck) {
  ContinuationCounts counts(1 << 8);
  EXPECT_DEATH(counts.Add({}, 1), "empty");
}

}  // namespace
}  // namespace bastion
