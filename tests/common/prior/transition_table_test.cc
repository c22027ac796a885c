#include "common/prior/transition_table.h"

#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion {
namespace {

using Columns = TransitionTable::Columns;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The vocabulary has 3 tokens. Token 0 was followed by token 1 (five times) and token 2 (twice).
// The pair (0, 1) was followed by token 2 (four times).
Columns Sample() {
  Columns columns;
  columns.vocabulary = 3;
  columns.occurrences = {6, 5, 0};
  columns.pairs = {0 * 3 + 1};
  columns.totals = {8, 0, 0, 5};
  columns.offsets = {0, 2, 2, 2, 3};
  columns.tokens = {1, 2, 2};
  columns.counts = {5, 2, 4};
  return columns;
}

TransitionTable Make(Columns columns) {
  absl::StatusOr<TransitionTable> table = TransitionTable::Make(std::move(columns));
  EXPECT_TRUE(table.ok()) << table.status();
  return *std::move(table);
}

void ExpectRefused(Columns columns, const std::string& reason) {
  const absl::Status status = TransitionTable::Make(std::move(columns)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(status.message(), HasSubstr(reason));
}

TEST(TransitionTableTest, FindsTheContinuationsOfAToken) {
  const TransitionTable table = Make(Sample());
  const Continuations after = table.After(0);
  EXPECT_EQ(after.total, 8.0f);
  EXPECT_THAT(after.tokens, ElementsAre(1, 2));
  EXPECT_THAT(after.counts, ElementsAre(5, 2));
}

TEST(TransitionTableTest, FindsTheContinuationsOfAPair) {
  const TransitionTable table = Make(Sample());
  const Continuations after = table.After(0, 1);
  EXPECT_EQ(after.total, 5.0f);
  EXPECT_THAT(after.tokens, ElementsAre(2));
  EXPECT_THAT(after.counts, ElementsAre(4));
}

TEST(TransitionTableTest, UnknownContextsAreEmpty) {
  const TransitionTable table = Make(Sample());
  EXPECT_EQ(table.After(1).total, 0.0f);
  EXPECT_THAT(table.After(1).tokens, IsEmpty());
  for (const auto& [previous, last] : {std::pair(1, 0), {0, 0}, {0, 2}, {2, 2}}) {
    EXPECT_EQ(table.After(previous, last).total, 0.0f);
    EXPECT_THAT(table.After(previous, last).tokens, IsEmpty());
  }
}

TEST(TransitionTableTest, ATableMayHaveNoPairs) {
  Columns columns = Sample();
  columns.pairs = {};
  columns.totals.pop_back();
  columns.offsets.pop_back();
  columns.tokens.pop_back();
  columns.counts.pop_back();
  const TransitionTable table = Make(columns);
  EXPECT_EQ(table.After(0, 1).total, 0.0f);
  EXPECT_EQ(table.After(0).total, 8.0f);
}

TEST(TransitionTableTest, ProbabilitiesAreSmoothedAndSumToOne) {
  const TransitionTable table = Make(Sample());
  EXPECT_FLOAT_EQ(table.Probability(0), 6.5f / 12.5f);
  EXPECT_FLOAT_EQ(table.Probability(2), 0.5f / 12.5f);
  EXPECT_FLOAT_EQ(table.Probability(0) + table.Probability(1) + table.Probability(2), 1.0f);
}

// The table has every third pair of a vocabulary of 200. The total of a pair is its number plus
// one.
TEST(TransitionTableTest, FindsEachOfManyPairs) {
  constexpr int kVocabulary = 200;
  Columns columns;
  columns.vocabulary = kVocabulary;
  columns.occurrences.assign(kVocabulary, 1);
  columns.totals.assign(kVocabulary, 0);
  for (uint64_t pair = 0; pair < kVocabulary * kVocabulary; pair += 3) {
    columns.pairs.push_back(pair);
    columns.totals.push_back(static_cast<uint32_t>(pair + 1));
  }
  columns.offsets.assign(columns.totals.size() + 1, 0);
  const TransitionTable table = Make(columns);
  for (int pair = 0; pair < kVocabulary * kVocabulary; ++pair) {
    const float total = pair % 3 == 0 ? static_cast<float>(pair + 1) : 0.0f;
    ASSERT_EQ(table.After(pair / kVocabulary, pair % kVocabulary).total, total) << pair;
  }
}

TEST(TransitionTableTest, MismatchedSizesAreRefused) {
  const char* reason = "column sizes do not match a vocabulary of 3 and 1 pairs";
  Columns columns = Sample();
  columns.occurrences.pop_back();
  ExpectRefused(columns, reason);
  columns = Sample();
  columns.totals.push_back(1);
  ExpectRefused(columns, reason);
  columns = Sample();
  columns.offsets.pop_back();
  ExpectRefused(columns, reason);
  columns = Sample();
  columns.counts.pop_back();
  ExpectRefused(columns, reason);
}

TEST(TransitionTableTest, AnEmptyOrNegativeVocabularyIsRefused) {
  Columns columns;
  columns.offsets = {0};
  ExpectRefused(columns, "a vocabulary of 0");
  columns.vocabulary = -1;
  ExpectRefused(columns, "a vocabulary of -1");
}

TEST(TransitionTableTest, OffsetsMustBeginAtZero) {
  Columns columns = Sample();
  columns.offsets[0] = 1;
  ExpectRefused(columns, "offsets[0] is not 0");
}

TEST(TransitionTableTest, OffsetsMustEndAtTheNumberOfContinuations) {
  Columns columns = Sample();
  columns.offsets[4] = 2;
  ExpectRefused(columns, "offsets[4] is not the number of continuations");
}

TEST(TransitionTableTest, OffsetsMustNotDecrease) {
  Columns columns = Sample();
  columns.offsets[2] = 1;
  ExpectRefused(columns, "offsets[1] is above the next offset");
}

TEST(TransitionTableTest, OffsetsMustNotLeaveTheContinuations) {
  Columns columns = Sample();
  columns.offsets[2] = 0xFFFFFFFF;
  ExpectRefused(columns, "offsets[2] is above the next offset");
}

TEST(TransitionTableTest, ATotalBelowTheSumOfItsCountsIsRefused) {
  Columns columns = Sample();
  columns.totals[0] = 6;
  ExpectRefused(columns, "totals[0] is below the sum of the context's counts");
  columns = Sample();
  columns.totals[3] = 3;
  ExpectRefused(columns, "totals[3] is below the sum of the context's counts");
}

TEST(TransitionTableTest, APairOutsideTheVocabularyIsRefused) {
  Columns columns = Sample();
  columns.pairs[0] = 9;
  ExpectRefused(columns, "pairs[0] is outside the vocabulary");
}

TEST(TransitionTableTest, PairsMustIncrease) {
  Columns columns = Sample();
  columns.pairs = {1, 1};
  columns.totals.push_back(0);
  columns.offsets.push_back(3);
  ExpectRefused(columns, "pairs[1] is not above the pair before it");
}

TEST(TransitionTableTest, ATokenOutsideTheVocabularyIsRefused) {
  Columns columns = Sample();
  columns.tokens[1] = 3;
  ExpectRefused(columns, "tokens[1] is outside the vocabulary");
  columns.tokens[1] = -1;
  ExpectRefused(columns, "tokens[1] is outside the vocabulary");
}

}  // namespace
}  // namespace bastion
