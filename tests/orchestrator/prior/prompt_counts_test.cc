#include "orchestrator/prior/prompt_counts.h"

#include <random>

#include "gtest/gtest.h"
#include "orchestrator/prior/transition_prior.h"

namespace bastion {
namespace {

constexpr size_t kMin = PromptCounts::kMinTokens;
constexpr int kPromptVocabulary = 10;

// `shared` tokens that are the same in all texts, then `own` tokens of text `number`.
std::vector<TokenId> Text(size_t shared, size_t own, unsigned number) {
  std::vector<TokenId> text;
  std::mt19937 common(7), rest(number);
  for (size_t i = 0; i < shared; ++i)
    text.push_back(static_cast<TokenId>(common() % kPromptVocabulary));
  text.push_back(static_cast<TokenId>(number));  // The texts differ from here on.
  for (size_t i = 1; i < own; ++i) text.push_back(static_cast<TokenId>(rest() % kPromptVocabulary));
  return text;
}

// Adds the text to `counts` as a prior does. Returns what it shared.
PromptCounts::Shared AddTo(PromptCounts& counts, const std::vector<TokenId>& text,
                           const std::string& salt = "") {
  const PromptCounts::Shared shared = counts.Add(text, salt);
  if (shared.keep > 0) {
    counts.Keep(absl::MakeConstSpan(text).subspan(0, shared.keep), salt, ContinuationCounts(64));
  }
  return shared;
}

TEST(PromptCountsTest, CountsAreKeptFromTheSecondPromptAndUsedFromTheThird) {
  PromptCounts counts;
  EXPECT_EQ(AddTo(counts, Text(100, 9, 1)).keep, 0u);
  const PromptCounts::Shared second = AddTo(counts, Text(100, 9, 2));
  EXPECT_EQ(second.counts, nullptr);
  EXPECT_EQ(second.keep, 100u);
  const PromptCounts::Shared third = AddTo(counts, Text(100, 9, 3));
  EXPECT_NE(third.counts, nullptr);
  EXPECT_EQ(third.counted, 100u);
  EXPECT_EQ(third.keep, 0u) << "they are kept already";
}

TEST(PromptCountsTest, ALongerSharedBeginningIsKeptToo) {
  PromptCounts counts;
  for (const unsigned number : {1, 2}) (void)AddTo(counts, Text(100, 9, number));
  std::vector<TokenId> chat = Text(100, kMin, 2);
  EXPECT_EQ(AddTo(counts, chat).keep, 0u);
  chat.push_back(5);
  const PromptCounts::Shared next = AddTo(counts, chat);
  EXPECT_EQ(next.counted, 100u);
  EXPECT_EQ(next.keep, 100 + kMin);
  EXPECT_EQ(AddTo(counts, chat).counted, 100 + kMin);
}

TEST(PromptCountsTest, ShortBeginningsAreNotKept) {
  PromptCounts counts;
  (void)AddTo(counts, Text(kMin - 1, 9, 1));
  EXPECT_EQ(AddTo(counts, Text(kMin - 1, 9, 2)).keep, 0u);
}

TEST(PromptCountsTest, AnotherSaltSharesNothing) {
  PromptCounts counts;
  for (const unsigned number : {1, 2}) (void)AddTo(counts, Text(100, 9, number), "alice");
  const PromptCounts::Shared other = AddTo(counts, Text(100, 9, 3), "bob");
  EXPECT_EQ(other.counts, nullptr);
  EXPECT_EQ(other.keep, 0u);
  EXPECT_NE(AddTo(counts, Text(100, 9, 4), "alice").counts, nullptr);
}

TEST(PromptCountsTest, TheBeginningThatWasUsedLastStays) {
  PromptCounts counts;
  for (const unsigned number : {1, 2}) (void)AddTo(counts, Text(100, 9, number));
  for (unsigned i = 0; i < 2 * PromptCounts::kEntries; ++i) {
    (void)AddTo(counts, Text(0, 200, 100 + i));
    EXPECT_NE(AddTo(counts, Text(100, 9, 3)).counts, nullptr) << i;
  }
  for (unsigned i = 0; i < PromptCounts::kEntries; ++i) (void)AddTo(counts, Text(0, 200, 200 + i));
  EXPECT_EQ(AddTo(counts, Text(100, 9, 3)).counts, nullptr);
}

// The gains of every context must equal those of a prior that counts every token itself.
TEST(PromptCountsTest, APriorWithReusedCountsEqualsOneThatCountsItself) {
  PromptCounts counts;
  ContinuationCounts learned(1024), expected_learned(1024);
  for (unsigned number = 1; number <= 4; ++number) {
    const std::vector<TokenId> text = Text(300, 50, number);
    TransitionPrior prior({.vocabulary = kPromptVocabulary, .learned = &learned});
    TransitionPrior expected({.vocabulary = kPromptVocabulary, .learned = &expected_learned});
    prior.AppendPrompt(text, "", counts);
    for (const TokenId token : text) expected.Append(token);
    for (TokenId next = 0; next < kPromptVocabulary; ++next) {
      GainList gains, expected_gains;
      const std::vector<TokenId> following = {next};
      prior.CollectGains(prior.TokensBefore(following), &gains);
      expected.CollectGains(expected.TokensBefore(following), &expected_gains);
      ASSERT_EQ(gains.entries().size(), expected_gains.entries().size());
      for (const TokenGains& entry : expected_gains.entries()) {
        const TokenGains* found = gains.Find(entry.token);
        ASSERT_NE(found, nullptr);
        EXPECT_EQ(found->gains, entry.gains);
        EXPECT_EQ(found->estimate, entry.estimate);
      }
    }
  }
  EXPECT_EQ(counts.Add(Text(300, 50, 9), "").counted, 300u);
}

}  // namespace
}  // namespace bastion
