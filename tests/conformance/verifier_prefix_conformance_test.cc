// Tests the contract of Verifier::ReusePrefix for every kind of verifier.
#include <gtest/gtest.h>

#include "tests/conformance/verifier_fixture.h"

namespace bastion {
namespace {

using testing::kPrompt;

class VerifierPrefixConformanceTest : public testing::VerifierFixture {
 protected:
  // Tokens before the root, and the root.
  static std::vector<TokenId> BeforeRoot(const std::vector<TokenId>& prompt) {
    return {prompt.begin(), prompt.end() - 1};
  }
  // A prompt of `pages` full pages and a root that no other test has.
  std::vector<TokenId> NewPrompt(int pages) {
    static int number = 0;
    std::vector<TokenId> prompt = PromptOfPages(pages);
    prompt[0] = ++number % vocabulary_;
    prompt[1] = number / vocabulary_;
    prompt[2] = 5;
    return prompt;
  }
  absl::StatusOr<int> Reuse(SequenceId id, const std::vector<TokenId>& prompt,
                            const std::string& salt = "") {
    return verifier().ReusePrefix({id, BeforeRoot(prompt), salt});
  }
  // Opens a sequence, reuses what it can of `prompt` and prefills the rest. Sets `reused`.
  SequenceId BeginShared(const std::vector<TokenId>& prompt, int& reused,
                         const std::string& salt = "", const SamplingParams& sampling = {}) {
    const SequenceId id = OpenNew(sampling);
    const auto tokens = Reuse(id, prompt, salt);
    EXPECT_TRUE(tokens.ok()) << tokens.status();
    reused = tokens.value_or(0);
    const std::vector<TokenId> rest(prompt.begin() + reused, prompt.end() - 1);
    if (rest.empty()) return id;
    const auto trace = verifier().Prefill({id, reused, rest});
    EXPECT_TRUE(trace.ok()) << trace.status();
    return id;
  }
  int ReusedOf(const std::vector<TokenId>& prompt, const std::string& salt = "") {
    int reused = 0;
    verifier().Close(BeginShared(prompt, reused, salt));
    return reused;
  }
  std::vector<TokenId> TextAfter(SequenceId id, const std::vector<TokenId>& prompt, int count) {
    std::vector<TokenId> text = {prompt.back()};
    for (int i = 0; i < count; ++i) {
      const auto cached = static_cast<Position>(prompt.size() - 1 + i);
      const VerifyOutcome outcome = VerifyOne({id, cached, DraftTree(text.back())});
      EXPECT_TRUE(outcome.status.ok()) << outcome.status;
      text.push_back(outcome.acceptance.next);
    }
    return {text.begin() + 1, text.end()};
  }
};

TEST_P(VerifierPrefixConformanceTest, TheSecondSequenceReusesTheFullPagesOfTheFirst) {
  std::vector<TokenId> prompt = NewPrompt(2);
  prompt.insert(prompt.end(), {1, 2, 3});  // A page that is not full.
  EXPECT_EQ(ReusedOf(prompt), 0);
  EXPECT_EQ(ReusedOf(prompt), 2 * info_.page_tokens);
}

TEST_P(VerifierPrefixConformanceTest, ReuseEndsAtTheFirstPageThatDiffers) {
  std::vector<TokenId> prompt = NewPrompt(3);
  EXPECT_EQ(ReusedOf(prompt), 0);
  prompt[info_.page_tokens + 3] ^= 1;
  EXPECT_EQ(ReusedOf(prompt), info_.page_tokens);
  EXPECT_EQ(ReusedOf(prompt), 3 * info_.page_tokens) << "both continuations are cached";
}

TEST_P(VerifierPrefixConformanceTest, AnotherSaltSharesNothing) {
  const std::vector<TokenId> prompt = NewPrompt(2);
  EXPECT_EQ(ReusedOf(prompt, "alice"), 0);
  EXPECT_EQ(ReusedOf(prompt, "bob"), 0);
  EXPECT_EQ(ReusedOf(prompt, ""), 0);
  EXPECT_EQ(ReusedOf(prompt, "alice"), 2 * info_.page_tokens);
}

TEST_P(VerifierPrefixConformanceTest, TheTextAfterAReusedPrefixIsTheTextOfPlainDecoding) {
  const std::vector<TokenId> prompt = NewPrompt(2);
  const SamplingParams sampling = {{0.9f, 7, 40, 0.95f},           1.3f, 0.4f, 0.2f, {},
                                   static_cast<int>(prompt.size())};
  const std::vector<TokenId> text = PlainText(sampling, 8, prompt);
  for (const int expected : {0, 2 * info_.page_tokens}) {
    int reused = 0;
    const SequenceId id = BeginShared(prompt, reused, "", sampling);
    EXPECT_EQ(reused, expected);
    EXPECT_EQ(TextAfter(id, prompt, 8), text);
    verifier().Close(id);
  }
}

TEST_P(VerifierPrefixConformanceTest, LiveSequencesShareAPrefixAndDivergeAfterIt) {
  std::vector<TokenId> prompt = NewPrompt(2), other = prompt;
  other.back() = (prompt.back() + 1) % vocabulary_;
  const std::vector<TokenId> text = PlainText({}, 6, prompt), other_text = PlainText({}, 6, other);
  const int before = FreeTokens();
  int reused = 0;
  const SequenceId first = BeginShared(prompt, reused), second = BeginShared(other, reused);
  EXPECT_EQ(reused, 2 * info_.page_tokens);
  EXPECT_EQ(FreeTokens(), before - 2 * info_.page_tokens) << "the pages count once";
  EXPECT_EQ(TextAfter(first, prompt, 6), text);
  EXPECT_EQ(TextAfter(second, other, 6), other_text);
  verifier().Close(first);
  EXPECT_EQ(FreeTokens(), before - 3 * info_.page_tokens) << "the second still holds them";
}

// On a GPU, the page tables of all sequences are copied, and are together longer than the pool.
TEST_P(VerifierPrefixConformanceTest, ManySequencesCanShareAPrefixThatFillsTheCacheOnce) {
  const int pages = std::min(info_.kv_tokens, info_.max_context) / info_.page_tokens / 2;
  const std::vector<TokenId> prompt = NewPrompt(pages), text = PlainText({}, 1, prompt);
  Forest forest;
  for (int i = 0; i < 5; ++i) {
    int reused = 0;
    const SequenceId id = BeginShared(prompt, reused);
    EXPECT_EQ(reused, i == 0 ? 0 : pages * info_.page_tokens);
    forest.push_back({id, pages * info_.page_tokens, DraftTree(prompt.back())});
  }
  const auto result = verifier().Verify(forest, {});
  ASSERT_TRUE(result.ok()) << result.status();
  for (const VerifyOutcome& outcome : result->outcomes) {
    EXPECT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_EQ(outcome.acceptance.next, text[0]);
  }
}

// The output of a sequence is a part of the next prompt of the same chat.
TEST_P(VerifierPrefixConformanceTest, OutputTokensAreReusedToo) {
  const std::vector<TokenId> prompt = NewPrompt(1);
  int reused = 0;
  const SequenceId id = BeginShared(prompt, reused);
  std::vector<TokenId> next = prompt;
  const std::vector<TokenId> text = TextAfter(id, prompt, info_.page_tokens);
  verifier().Close(id);
  next.insert(next.end(), text.begin(), text.end());
  EXPECT_EQ(ReusedOf(next), 2 * info_.page_tokens);
}

TEST_P(VerifierPrefixConformanceTest, APreemptedSequenceReusesItsOwnPages) {
  const std::vector<TokenId> prompt = NewPrompt(2);
  int reused = 0;
  SequenceId id = BeginShared(prompt, reused);
  verifier().Close(id);
  ++id.epoch;
  ASSERT_TRUE(Open(id).ok());
  EXPECT_EQ(*Reuse(id, prompt), 2 * info_.page_tokens);
}

TEST_P(VerifierPrefixConformanceTest, CachedPagesCountAsFreeAndGiveWay) {
  const std::vector<TokenId> prompt = NewPrompt(2);
  const int before = FreeTokens();
  EXPECT_EQ(ReusedOf(prompt), 0);
  EXPECT_EQ(FreeTokens(), before);
  FillCache();
  EXPECT_EQ(FreeTokens(), 0);
  for (const SequenceId id : opened_) verifier().Close(id);
  EXPECT_EQ(ReusedOf(prompt), 0) << "other sequences needed its pages";
}

TEST_P(VerifierPrefixConformanceTest, ASequenceThatDoesNotAskNeitherReusesNorShares) {
  const std::vector<TokenId> prompt = NewPrompt(2);
  verifier().Close(Begin({}, prompt));
  EXPECT_EQ(ReusedOf(prompt), 0);
}

TEST_P(VerifierPrefixConformanceTest, AShortPromptReusesNothing) {
  const SequenceId id = OpenNew();
  EXPECT_EQ(*verifier().ReusePrefix({id, {}, ""}), 0);
  EXPECT_TRUE(VerifyOne({id, 0, DraftTree(1)}).status.ok());
}

TEST_P(VerifierPrefixConformanceTest, OnlyANewSequenceCanReuseAPrefix) {
  EXPECT_TRUE(absl::IsFailedPrecondition(Reuse(Begin(), kPrompt).status()));
  EXPECT_TRUE(absl::IsNotFound(Reuse({4711, 0}, kPrompt).status()));
  SequenceId stale = OpenNew();
  --stale.epoch;
  EXPECT_TRUE(absl::IsFailedPrecondition(Reuse(stale, kPrompt).status()));
}

INSTANTIATE_TEST_SUITE_P(Kinds, VerifierPrefixConformanceTest,
                         ::testing::ValuesIn(testing::KindsUnderTest()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace bastion
