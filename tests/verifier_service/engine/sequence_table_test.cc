#include "verifier_service/engine/sequence_table.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion::verifier {
namespace {

using ::testing::HasSubstr;

constexpr SequenceId kFirst = {1, 5};
constexpr int kPages = 8;

class SequenceTableTest : public ::testing::Test {
 protected:
  // Opens `id` and reserves `tokens` tokens of cache.
  void OpenWith(SequenceId id, int tokens) {
    ASSERT_TRUE(table_.Open(id, {}).ok());
    ASSERT_TRUE(cache_.Reserve((*table_.Find(id))->table, tokens).ok());
  }

  nn::PagePool cache_{kPages};
  SequenceTable table_{cache_, /*max_sequences=*/2};
};

TEST_F(SequenceTableTest, FindsAnOpenSequence) {
  ASSERT_TRUE(table_.Open(kFirst, {0.5f, 9}).ok());
  const auto found = table_.Find(kFirst);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ((*found)->id, kFirst);
  EXPECT_EQ((*found)->committed, 0);
  EXPECT_EQ((*found)->sampling, (SamplingParams{0.5f, 9}));
}

TEST_F(SequenceTableTest, AnUnknownSequenceIsNotFound) {
  const auto found = table_.Find({3, 0});
  EXPECT_TRUE(absl::IsNotFound(found.status()));
  EXPECT_THAT(found.status().message(), HasSubstr("3@0"));
  EXPECT_FALSE(table_.Close({3, 0}));
}

TEST_F(SequenceTableTest, AStaleEpochIsRefused) {
  ASSERT_TRUE(table_.Open(kFirst, {}).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(table_.Open({1, 4}, {})));
  EXPECT_TRUE(absl::IsFailedPrecondition(table_.Find({1, 4}).status()));
  EXPECT_FALSE(table_.Close({1, 4}));  // A late Close must not end the later epoch.
  EXPECT_TRUE(table_.Find(kFirst).ok());
}

TEST_F(SequenceTableTest, OpeningAnEpochTwiceIsAnError) {
  ASSERT_TRUE(table_.Open(kFirst, {}).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(table_.Open(kFirst, {})));
}

TEST_F(SequenceTableTest, AHigherEpochReplacesTheOldEpochAndFreesItsPages) {
  OpenWith(kFirst, 40);
  EXPECT_EQ(cache_.free_pages(), kPages - 3);
  ASSERT_TRUE(table_.Open({1, 6}, {}).ok());
  EXPECT_EQ(cache_.free_pages(), kPages);
  EXPECT_EQ(table_.size(), 1);
  EXPECT_TRUE(absl::IsFailedPrecondition(table_.Find(kFirst).status()));
}

TEST_F(SequenceTableTest, OpenFailsIfTheTableIsFull) {
  ASSERT_TRUE(table_.Open({1, 0}, {}).ok());
  ASSERT_TRUE(table_.Open({2, 0}, {}).ok());
  const absl::Status third = table_.Open({3, 0}, {});
  EXPECT_TRUE(absl::IsResourceExhausted(third));
  EXPECT_THAT(third.message(), HasSubstr("--max_sequences"));
  EXPECT_TRUE(table_.Open({2, 1}, {}).ok());  // It replaces its own earlier epoch.
  EXPECT_TRUE(table_.Close({1, 0}));
  EXPECT_TRUE(table_.Open({3, 0}, {}).ok());
}

TEST_F(SequenceTableTest, CloseFreesEveryPage) {
  OpenWith({1, 0}, 17);
  OpenWith({2, 0}, 16);
  EXPECT_EQ(cache_.free_pages(), kPages - 3);
  EXPECT_TRUE(table_.Close({1, 0}));
  EXPECT_EQ(cache_.free_pages(), kPages - 1);
  EXPECT_TRUE(table_.Close({2, 0}));
  EXPECT_EQ(cache_.free_pages(), kPages);
  EXPECT_FALSE(table_.Close({2, 0}));
  EXPECT_EQ(table_.size(), 0);
}

TEST_F(SequenceTableTest, OutOfPagesLeavesTheTableUnchanged) {
  OpenWith(kFirst, 16);
  nn::PageTable& pages = (*table_.Find(kFirst))->table;
  EXPECT_TRUE(absl::IsResourceExhausted(cache_.Reserve(pages, 16 * kPages + 1)));
  EXPECT_EQ(pages.pages.size(), 1u);
  EXPECT_EQ(cache_.free_pages(), kPages - 1);
}

}  // namespace
}  // namespace bastion::verifier
