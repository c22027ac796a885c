#include "tools/train/prior/transition_counter.h"

#include <algorithm>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion::drafter {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Text = std::vector<TokenId>;

// Limits that keep every continuation of a single token, and every continuation of a pair of tokens
// that was counted at least twice.
TransitionLimits Loose() {
  TransitionLimits limits;
  limits.singles = limits.pairs = 100;
  limits.min_pair_total = 1;
  return limits;
}

TransitionTable Build(const TransitionCounter& counter, const TransitionLimits& limits) {
  absl::StatusOr<TransitionTable> table = counter.Build(limits);
  EXPECT_TRUE(table.ok()) << table.status();
  return *std::move(table);
}

void Add(TransitionCounter& counter, const Text& text, int times = 1) {
  for (int i = 0; i < times; ++i) EXPECT_TRUE(counter.Add(text).ok());
}

TEST(TransitionCounterTest, CountsASmallTextExactly) {
  TransitionCounter counter(5);
  Add(counter, {0, 1, 2, 0, 1, 2, 0, 1, 3});
  EXPECT_EQ(counter.texts(), 1);
  EXPECT_EQ(counter.tokens(), 9);
  const TransitionTable table = Build(counter, Loose());
  EXPECT_THAT(table.columns().occurrences, ElementsAre(3, 3, 2, 1, 0));
  EXPECT_EQ(table.After(1).total, 3.0f);
  EXPECT_THAT(table.After(1).tokens, ElementsAre(2, 3));
  EXPECT_THAT(table.After(1).counts, ElementsAre(2, 1));
  EXPECT_EQ(table.After(3).total, 0.0f);
  // (0, 1) was followed by 2, 2 and 3. The single 3 is not kept, but it is in the total.
  EXPECT_EQ(table.After(0, 1).total, 3.0f);
  EXPECT_THAT(table.After(0, 1).tokens, ElementsAre(2));
  EXPECT_THAT(table.After(0, 1).counts, ElementsAre(2));
  EXPECT_THAT(table.columns().pairs, ElementsAre(0 * 5 + 1, 1 * 5 + 2, 2 * 5 + 0));
}

TEST(TransitionCounterTest, CountsNothingAcrossTexts) {
  TransitionCounter counter(4);
  Add(counter, {0, 1}, 20);
  Add(counter, {2}, 20);
  Add(counter, {}, 20);
  const TransitionTable table = Build(counter, Loose());
  EXPECT_EQ(counter.texts(), 60);
  EXPECT_THAT(table.columns().occurrences, ElementsAre(20, 20, 20, 0));
  EXPECT_THAT(table.After(0).tokens, ElementsAre(1));
  EXPECT_EQ(table.After(1).total, 0.0f);
  EXPECT_EQ(table.After(2).total, 0.0f);
  EXPECT_THAT(table.columns().pairs, IsEmpty());
}

TEST(TransitionCounterTest, KeepsTheLargestCountsThenTheSmallestIds) {
  TransitionCounter counter(8);
  Add(counter, {0, 7, 1}, 3);
  Add(counter, {0, 7, 2}, 5);
  for (const TokenId equal : {6, 4, 5, 3}) Add(counter, {0, 7, equal}, 4);
  TransitionLimits limits;
  limits.singles = 3;
  limits.pairs = 2;
  const TransitionTable table = Build(counter, limits);
  EXPECT_THAT(table.After(7).tokens, ElementsAre(2, 3, 4));
  EXPECT_THAT(table.After(7).counts, ElementsAre(5, 4, 4));
  EXPECT_THAT(table.After(0, 7).tokens, ElementsAre(2, 3));
  EXPECT_EQ(table.After(7).total, 24.0f);
  EXPECT_EQ(table.After(0, 7).total, 24.0f);
}

TEST(TransitionCounterTest, DropsPairsWithASmallTotal) {
  TransitionCounter counter(4);
  Add(counter, {0, 1, 2}, 8);
  Add(counter, {1, 0, 2}, 7);
  const TransitionTable table = Build(counter, TransitionLimits());
  EXPECT_THAT(table.columns().pairs, ElementsAre(1));
  EXPECT_EQ(table.After(0).total, 15.0f);
}

TEST(TransitionCounterTest, ScalesAContextWithCountsAboveSixteenBits) {
  TransitionCounter counter(4);
  // Token 0 is followed 131,070 times by token 1, 32,768 times by token 2 and once by token 3. The
  // counts are halved, so token 3 is dropped.
  Text text;
  for (int i = 0; i < 131070; ++i) text.insert(text.end(), {0, 1});
  Add(counter, text);
  Add(counter, {0, 2}, 32768);
  Add(counter, {0, 3});
  const TransitionTable table = Build(counter, Loose());
  EXPECT_THAT(table.After(0).tokens, ElementsAre(1, 2));
  EXPECT_THAT(table.After(0).counts, ElementsAre(65535, 16384));
  EXPECT_EQ(table.After(0).total, (131070 + 32768) / 2 + 1);
  EXPECT_EQ(table.After(1).total, 131069 / 2 + 1);
  EXPECT_EQ(table.columns().occurrences[0], 131070u + 32768 + 1);
}

TEST(TransitionCounterTest, MemoryIsBoundedAndFrequentPairsSurvive) {
  constexpr int kVocabulary = 1000;
  constexpr int64_t kLimit = 2000;
  TransitionCounter counter(kVocabulary, kLimit);
  std::mt19937 random(1);
  size_t largest = 0;
  for (int i = 0; i < 3000; ++i) {
    Text noise(20);
    for (TokenId& token : noise) token = static_cast<TokenId>(random() % kVocabulary);
    Add(counter, noise);
    Add(counter, {10, 11, 12});
    largest = std::max(largest, counter.counted());
  }
  EXPECT_LE(largest, 2u * kLimit);
  EXPECT_GT(largest, static_cast<size_t>(kLimit));
  const TransitionTable table = Build(counter, TransitionLimits());
  const Continuations after = table.After(10, 11);
  EXPECT_GE(after.total, 3000.0f);
  ASSERT_FALSE(after.tokens.empty());
  EXPECT_EQ(after.tokens[0], 12);
  EXPECT_GE(after.counts[0], 3000);
  EXPECT_EQ(table.After(11).tokens[0], 12);
}

TEST(TransitionCounterTest, LossyCountingIsDeterministic) {
  const auto make = [] {
    TransitionCounter counter(50, 300);
    std::mt19937 random(5);
    for (int i = 0; i < 200; ++i) {
      Text text(30);
      for (TokenId& token : text)
        token = static_cast<TokenId>(random() % 50 * (random() % 50) / 50);
      Add(counter, text);
    }
    return Build(counter, Loose());
  };
  const TransitionTable first = make(), second = make();
  EXPECT_EQ(first.columns().pairs, second.columns().pairs);
  EXPECT_EQ(first.columns().totals, second.columns().totals);
  EXPECT_EQ(first.columns().tokens, second.columns().tokens);
  EXPECT_EQ(first.columns().counts, second.columns().counts);
}

TEST(TransitionCounterTest, DropsTheRarestPairsFirst) {
  TransitionCounter counter(6);
  Add(counter, {0, 1, 2}, 10);
  Add(counter, {1, 0, 2}, 30);
  Add(counter, {2, 0, 3}, 20);
  TransitionLimits limits;
  // Continuations of tokens: 1, 2 and 3 after 0; 2 and 0 after 1; 0 after 2. Three more belong to
  // pairs.
  ASSERT_EQ(Build(counter, limits).columns().tokens.size(), 9u);
  limits.max_entries = 8;
  EXPECT_THAT(Build(counter, limits).columns().pairs, ElementsAre(1 * 6 + 0, 2 * 6 + 0));
  limits.max_entries = 7;
  EXPECT_THAT(Build(counter, limits).columns().pairs, ElementsAre(1 * 6 + 0));
  limits.max_entries = 6;
  EXPECT_THAT(Build(counter, limits).columns().pairs, IsEmpty());
  limits.max_entries = 5;
  const TransitionTable tokens = Build(counter, limits);
  EXPECT_THAT(tokens.After(2).tokens, IsEmpty());
  EXPECT_EQ(tokens.After(2).total, 20.0f);
  EXPECT_THAT(tokens.After(0).tokens, ElementsAre(2, 3, 1));
  limits.max_entries = 0;
  EXPECT_THAT(Build(counter, limits).columns().tokens, IsEmpty());
}

TEST(TransitionCounterTest, ATextWithAnInvalidTokenIsNotCounted) {
  TransitionCounter counter(4);
  for (const TokenId outside : {4, -1}) {
    const absl::Status status = counter.Add(Text{0, 1, outside});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("at index 2 is outside the target's vocabulary of 4"));
  }
  EXPECT_EQ(counter.tokens(), 0);
  EXPECT_EQ(Build(counter, Loose()).After(0).total, 0.0f);
}

TEST(TransitionCounterTest, RefusesLimitsOutOfRange) {
  const TransitionCounter counter(4);
  for (int TransitionLimits::*limit : {&TransitionLimits::singles, &TransitionLimits::pairs}) {
    for (const int wrong : {-1, 65536}) {
      TransitionLimits limits;
      limits.*limit = wrong;
      EXPECT_EQ(counter.Build(limits).status().code(), absl::StatusCode::kInvalidArgument);
    }
  }
  for (const int64_t wrong : {int64_t{-1}, int64_t{1} << 32}) {
    TransitionLimits limits;
    limits.max_entries = wrong;
    EXPECT_EQ(counter.Build(limits).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace bastion::drafter
