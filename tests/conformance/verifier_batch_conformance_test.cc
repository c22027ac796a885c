// Tests the contract of Verifier (common/stages/stages.h) for every kind of verifier: trees and
// prompts in one call, and a full KV cache.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "tests/conformance/verifier_fixture.h"

namespace bastion {
namespace {

using VerifierBatchConformanceTest = testing::VerifierFixture;
using testing::kCached;
using testing::kPrompt;

// ---- trees and prompts in one forward ----

// One prompt is committed in uneven chunks beside a sequence that decodes, another one alone.
TEST_P(VerifierBatchConformanceTest, AMixedCallEqualsSeparateCalls) {
  const SamplingParams sampling = {1.0f, 21};
  const std::vector<TokenId> prompt = PromptOfPages(2);
  const std::vector<TokenId> text = PlainText({}, 12);
  const std::vector<TokenId> expected = PlainText(sampling, 4, prompt);
  const SequenceId decoding = Begin(), prefilled = OpenNew(sampling);
  const auto rest = static_cast<Position>(prompt.size()) - 1;
  Position cached = kCached, committed = 0;
  TokenId root = kPrompt.back();
  size_t generated = 0;
  const std::vector<std::pair<int, int>> calls = {{1, 2}, {7, 0}, {rest - 9, 1}, {1, 1}};
  for (const auto& [chunk, hits] : calls) {
    const DraftTree tree = TreeOver(root, text.data() + generated, hits);
    const auto first = prompt.begin() + committed;
    const auto result = verifier().Verify({{decoding, cached, tree}},
                                          {{prefilled, committed, {first, first + chunk}}});
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_TRUE(result->outcomes.at(0).status.ok()) << result->outcomes[0].status;
    ASSERT_TRUE(result->prompts.at(0).ok()) << result->prompts[0];
    EXPECT_EQ(result->trace.rows, tree.rows() + chunk);
    EXPECT_EQ(result->trace.contexts, (std::vector<int>{cached, committed}));
    const Acceptance& acceptance = result->outcomes[0].acceptance;
    ASSERT_EQ(acceptance.path.size(), static_cast<size_t>(hits));
    generated += acceptance.committed_length();
    ASSERT_EQ(acceptance.next, text[generated - 1]);
    cached += acceptance.committed_length();
    committed += chunk;
    root = acceptance.next;
  }
  ASSERT_EQ(committed, rest);
  std::vector<TokenId> actual;
  for (TokenId next = prompt.back(); actual.size() < expected.size();) {
    const VerifyOutcome outcome = VerifyOne({prefilled, committed++, DraftTree(next)});
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    actual.push_back(next = outcome.acceptance.next);
  }
  EXPECT_EQ(actual, expected);
}

TEST_P(VerifierBatchConformanceTest, ACallWithoutItemsSucceeds) {
  const auto result = verifier().Verify({}, {});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->outcomes.empty());
  EXPECT_TRUE(result->prompts.empty());
  EXPECT_EQ(result->trace.rows, 0);
}

TEST_P(VerifierBatchConformanceTest, ABadPromptDoesNotAffectTheOtherItems) {
  const std::vector<TokenId> text = PlainText({}, 1);
  const SequenceId decoding = Begin(), prefilled = Begin();
  const auto result = verifier().Verify({{decoding, kCached, DraftTree(kPrompt.back())}},
                                        {{{4711, 0}, 0, {1}},
                                         {prefilled, kCached + 1, {1}},
                                         {OpenNew(), 0, {}},
                                         {OpenNew(), 0, {1, 2}}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->outcomes.at(0).acceptance.next, text[0]);
  ASSERT_EQ(result->prompts.size(), 4u);
  EXPECT_TRUE(absl::IsNotFound(result->prompts[0])) << result->prompts[0];
  EXPECT_TRUE(absl::IsFailedPrecondition(result->prompts[1])) << result->prompts[1];
  EXPECT_TRUE(absl::IsInvalidArgument(result->prompts[2])) << result->prompts[2];
  EXPECT_TRUE(result->prompts[3].ok()) << result->prompts[3];
  EXPECT_EQ(result->trace.rows, 3);
}

TEST_P(VerifierBatchConformanceTest, ASequenceMayOccurOnceInACall) {
  const SequenceId id = Begin();
  const auto result = verifier().Verify({{id, kCached, DraftTree(1)}}, {{id, kCached, {1}}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->outcomes.at(0).status.ok()) << result->outcomes[0].status;
  EXPECT_TRUE(absl::IsInvalidArgument(result->prompts.at(0))) << result->prompts[0];
}

TEST_P(VerifierBatchConformanceTest, PromptTokensCountAsRows) {
  const SequenceId decoding = Begin();
  std::vector<PrefillItem> prompts;
  for (int rows = info_.max_rows - 1; rows > 0; rows -= info_.max_context) {
    prompts.push_back({OpenNew(), 0, std::vector<TokenId>(std::min(rows, info_.max_context), 1)});
  }
  DraftTree tree(kPrompt.back());
  const VerifyItem fitting = {decoding, kCached, tree};
  tree.Add(0, 1, -1);
  const auto refused = verifier().Verify({{decoding, kCached, tree}}, prompts);
  EXPECT_TRUE(absl::IsInvalidArgument(refused.status())) << refused.status();
  const auto result = verifier().Verify({fitting}, prompts);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->outcomes.at(0).status.ok()) << result->outcomes[0].status;
  for (const absl::Status& status : result->prompts) EXPECT_TRUE(status.ok()) << status;
}

// ---- a full KV cache ----

TEST_P(VerifierBatchConformanceTest, FreeKvTokensFallAndRise) {
  const int before = FreeTokens();
  const SequenceId id = Begin({}, PromptOfPages(2));
  EXPECT_EQ(FreeTokens(), before - 2 * info_.page_tokens);
  const auto result =
      verifier().Verify({{id, 2 * info_.page_tokens, DraftTree(1)}}, {{OpenNew(), 0, {1}}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->free_kv_tokens, before - 4 * info_.page_tokens);
  verifier().Close(id);
  EXPECT_EQ(FreeTokens(), before - info_.page_tokens);
}

TEST_P(VerifierBatchConformanceTest, RejectedNodesGiveTheirPagesBack) {
  const SequenceId id = Begin();
  const int before = FreeTokens();
  DraftTree tree(kPrompt.back());
  for (int i = 0; i < 2 * info_.page_tokens; ++i) tree.Add(0, i % vocabulary_, -1);
  ASSERT_TRUE(VerifyOne({id, kCached, tree}).status.ok());
  EXPECT_EQ(FreeTokens(), before);
}

TEST_P(VerifierBatchConformanceTest, AFullCacheVerifiesTheRootAlone) {
  const std::vector<TokenId> text = PlainText({}, 2);
  const SequenceId id = Begin();
  FillCache();
  DraftTree tree(kPrompt.back());  // Its first node is right, but the tree needs another page.
  for (int i = 0; i < info_.page_tokens; ++i) tree.Add(0, (text[0] + i) % vocabulary_, -1);
  const VerifyOutcome root = VerifyOne({id, kCached, tree});
  ASSERT_TRUE(root.status.ok()) << root.status;
  EXPECT_TRUE(root.acceptance.path.empty());
  EXPECT_EQ(root.acceptance.next, text[0]);
  const VerifyOutcome next = VerifyOne({id, kCached + 1, DraftTree(text[0])});
  EXPECT_EQ(next.acceptance.next, text[1]);
}

TEST_P(VerifierBatchConformanceTest, RootsComeBeforeNodesAndNodesBeforePrompts) {
  const SequenceId first = Begin(), second = Begin({}, PromptOfPages(1)), third = OpenNew();
  FillCache(/*pages_left=*/2);
  // Each of the four needs one page: the nodes of `first`, the root and the nodes of `second`, and
  // the prompt. The root gets one and the nodes of `first` the other.
  DraftTree wide(kPrompt.back());
  for (int i = 0; i < info_.page_tokens; ++i) wide.Add(0, i, -1);
  const auto result = verifier().Verify({{first, kCached, wide}, {second, info_.page_tokens, wide}},
                                        {{third, 0, {1}}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->outcomes.at(0).status.ok()) << result->outcomes[0].status;
  EXPECT_TRUE(result->outcomes.at(1).status.ok()) << result->outcomes[1].status;
  EXPECT_TRUE(absl::IsResourceExhausted(result->prompts.at(0))) << result->prompts[0];
  EXPECT_EQ(result->trace.rows, wide.rows() + 1);
}

TEST_P(VerifierBatchConformanceTest, ARootWithoutRoomChangesNothing) {
  const std::vector<TokenId> prompt = PromptOfPages(1), text = PlainText({}, 1);
  const std::vector<TokenId> expected = PlainText({}, 1, prompt);
  const SequenceId starved = Begin({}, prompt), other = Begin();
  const SequenceId filler = FillCache();
  const VerifyItem root = {starved, info_.page_tokens, DraftTree(prompt.back())};
  const auto full = verifier().Verify({root, {other, kCached, DraftTree(kPrompt.back())}}, {});
  ASSERT_TRUE(full.ok()) << full.status();
  EXPECT_TRUE(absl::IsResourceExhausted(full->outcomes.at(0).status)) << full->outcomes[0].status;
  EXPECT_TRUE(full->outcomes.at(1).status.ok()) << full->outcomes[1].status;
  EXPECT_EQ(full->outcomes[1].acceptance.next, text[0]);
  EXPECT_EQ(full->free_kv_tokens, 0);
  verifier().Close(filler);
  const VerifyOutcome retried = VerifyOne(root);
  ASSERT_TRUE(retried.status.ok()) << retried.status;
  EXPECT_EQ(retried.acceptance.next, expected[0]);
}

TEST_P(VerifierBatchConformanceTest, APromptWithoutRoomChangesNothing) {
  const std::vector<TokenId> prompt = PromptOfPages(1), text = PlainText({}, 1);
  const std::vector<TokenId> expected = PlainText({}, 1, prompt);
  const SequenceId starved = OpenNew(), other = Begin();
  const SequenceId filler = FillCache();
  const PrefillItem item = {starved, 0, {prompt.begin(), prompt.end() - 1}};
  const auto full = verifier().Verify({{other, kCached, DraftTree(kPrompt.back())}}, {item});
  ASSERT_TRUE(full.ok()) << full.status();
  EXPECT_EQ(full->outcomes.at(0).acceptance.next, text[0]);
  EXPECT_TRUE(absl::IsResourceExhausted(full->prompts.at(0))) << full->prompts[0];
  EXPECT_TRUE(absl::IsResourceExhausted(verifier().Prefill(item).status()));
  verifier().Close(filler);
  const auto retried = verifier().Verify({}, {item});
  ASSERT_TRUE(retried.ok()) << retried.status();
  ASSERT_TRUE(retried->prompts.at(0).ok()) << retried->prompts[0];
  const VerifyOutcome next = VerifyOne({starved, info_.page_tokens, DraftTree(prompt.back())});
  EXPECT_EQ(next.acceptance.next, expected[0]);
}

INSTANTIATE_TEST_SUITE_P(Kinds, VerifierBatchConformanceTest,
                         ::testing::ValuesIn(testing::KindsUnderTest()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace bastion
