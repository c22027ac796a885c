// Tests the contract of Verifier (common/stages/stages.h) for every kind of verifier.
#include <gtest/gtest.h>

#include "tests/conformance/verifier_fixture.h"

namespace bastion {
namespace {

using VerifierConformanceTest = testing::VerifierFixture;
using testing::kCached;
using testing::kPrompt;

TEST_P(VerifierConformanceTest, InfoIsComplete) {
  const auto info = verifier().Info();
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_FALSE(info->model.empty());
  EXPECT_GT(info->dims.vocabulary, 0);
  EXPECT_GT(info->max_context, 0);
  EXPECT_GT(info->max_rows, 0);
  EXPECT_GT(info->page_tokens, 0);
  EXPECT_GE(info->kv_tokens, info->max_context);
  EXPECT_GT(info->peaks.bytes_per_second, 0);
  EXPECT_GT(info->peaks.flops_per_second, 0);
}

TEST_P(VerifierConformanceTest, APlainDecodeStepCommitsOneToken) {
  const SequenceId id = Begin();
  const VerifyOutcome first = VerifyOne({id, kCached, DraftTree(kPrompt.back())});
  ASSERT_TRUE(first.status.ok()) << first.status;
  EXPECT_EQ(first.acceptance.committed_length(), 1);
  EXPECT_GE(first.acceptance.next, 0);
  EXPECT_LT(first.acceptance.next, vocabulary_);
  EXPECT_TRUE(VerifyOne({id, kCached + 1, DraftTree(first.acceptance.next)}).status.ok());
}

TEST_P(VerifierConformanceTest, ATreeCommitsTheTextOfPlainDecoding) {
  for (const SamplingParams& sampling : {SamplingParams{}, SamplingParams{1.0f, 21}}) {
    const std::vector<TokenId> text = PlainText(sampling, 13);
    const SequenceId id = Begin(sampling);
    Position cached = kCached;
    TokenId root = kPrompt.back();
    size_t generated = 0;
    for (const int hits : {3, 0, 5, 1}) {
      const DraftTree tree = TreeOver(root, text.data() + generated, hits);
      const VerifyOutcome outcome = VerifyOne({id, cached, tree});
      ASSERT_TRUE(outcome.status.ok()) << outcome.status;
      ASSERT_EQ(outcome.acceptance.path.size(), static_cast<size_t>(hits));
      for (const NodeIndex node : outcome.acceptance.path) {
        ASSERT_EQ(tree.token(node), text[generated++]);
      }
      ASSERT_EQ(outcome.acceptance.next, text[generated++]);
      cached += outcome.acceptance.committed_length();
      root = outcome.acceptance.next;
    }
    EXPECT_EQ(generated, 13u);
  }
}

TEST_P(VerifierConformanceTest, TheTargetChoosesOnlyTokensOfTheMask) {
  ASSERT_TRUE(info_.takes_masks);
  for (const SamplingParams& sampling : {SamplingParams{}, SamplingParams{1.0f, 21}}) {
    const TokenId free = PlainText(sampling, 1)[0];
    TokenSet others(vocabulary_), one(vocabulary_);
    for (TokenId token = 0; token < vocabulary_; ++token) {
      if (token != free) others.Add(token);
    }
    one.Add((free + 5) % vocabulary_);
    const auto choose = [&](const RowMasks& masks) {
      const SequenceId id = Begin(sampling);
      const VerifyOutcome outcome = VerifyOne({id, kCached, DraftTree(kPrompt.back()), masks});
      EXPECT_TRUE(outcome.status.ok()) << outcome.status;
      return outcome.acceptance.next;
    };
    EXPECT_NE(choose({{others}, {0}}), free);
    EXPECT_EQ(choose({{one}, {0}}), (free + 5) % vocabulary_);
    EXPECT_EQ(choose({{one}, {RowMasks::kAllTokens}}), free);
    EXPECT_EQ(choose({}), free);
  }
}

TEST_P(VerifierConformanceTest, ATreeUnderMasksCommitsTheTextOfPlainDecodingUnderThem) {
  // Every row allows the tokens of one residue class, which depends on its depth.
  const auto set_at = [&](int depth) {
    TokenSet set(vocabulary_);
    for (TokenId token = depth % 3; token < vocabulary_; token += 3) set.Add(token);
    return set;
  };
  for (const SamplingParams& sampling : {SamplingParams{}, SamplingParams{1.0f, 21}}) {
    const SequenceId plain = Begin(sampling);
    std::vector<TokenId> text;
    TokenId root = kPrompt.back();
    for (int i = 0; i < 6; ++i) {
      const VerifyOutcome outcome =
          VerifyOne({plain, kCached + i, DraftTree(root), {{set_at(i)}, {0}}});
      ASSERT_TRUE(outcome.status.ok()) << outcome.status;
      root = outcome.acceptance.next;
      ASSERT_EQ(root % 3, i % 3);
      text.push_back(root);
    }
    const DraftTree tree = TreeOver(kPrompt.back(), text.data(), 5);
    RowMasks masks;
    for (int depth = 0; depth <= 5; ++depth) masks.sets.push_back(set_at(depth));
    for (NodeIndex row = 0; row < tree.rows(); ++row) masks.set_of_row.push_back(tree.depth(row));
    const VerifyOutcome outcome = VerifyOne({Begin(sampling), kCached, tree, masks});
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    ASSERT_EQ(outcome.acceptance.path.size(), 5u);
    EXPECT_EQ(outcome.acceptance.next, text[5]);
  }
}

TEST_P(VerifierConformanceTest, MasksDoNotChangeLogprobs) {
  SamplingParams sampling;
  sampling.logprobs = 2;
  TokenSet one(vocabulary_);
  one.Add(7);
  const auto logprobs = [&](const RowMasks& masks) {
    const VerifyOutcome outcome =
        VerifyOne({Begin(sampling), kCached, DraftTree(kPrompt.back()), masks});
    EXPECT_TRUE(outcome.status.ok()) << outcome.status;
    return outcome.acceptance.logprobs;
  };
  const auto free = logprobs({}), masked = logprobs({{one}, {0}});
  ASSERT_EQ(free.size(), 1u);
  ASSERT_EQ(masked.size(), 1u);
  EXPECT_EQ(masked[0].top, free[0].top);
  EXPECT_LE(masked[0].chosen, free[0].chosen);
}

TEST_P(VerifierConformanceTest, MasksThatDoNotFitAreRefused) {
  const SequenceId id = Begin();
  TokenSet one(vocabulary_);
  one.Add(7);
  const DraftTree root(kPrompt.back());
  EXPECT_TRUE(absl::IsInvalidArgument(VerifyOne({id, kCached, root, {{one}, {1}}}).status));
  EXPECT_TRUE(absl::IsInvalidArgument(VerifyOne({id, kCached, root, {{one}, {0, 0}}}).status));
  EXPECT_TRUE(absl::IsInvalidArgument(
      VerifyOne({id, kCached, root, {{TokenSet(vocabulary_)}, {0}}}).status));
  EXPECT_TRUE(VerifyOne({id, kCached, root}).status.ok());
}

TEST_P(VerifierConformanceTest, TheSameSeedGivesTheSameText) {
  EXPECT_EQ(PlainText({1.0f, 4}, 8), PlainText({1.0f, 4}, 8));
  EXPECT_NE(PlainText({1.0f, 4}, 8), PlainText({1.0f, 5}, 8));
  EXPECT_EQ(PlainText({0.0f, 4}, 8), PlainText({0.0f, 5}, 8));
}

TEST_P(VerifierConformanceTest, OutcomesHaveTheOrderOfTheForest) {
  const std::vector<TokenId> greedy = PlainText({}, 3), sampled = PlainText({1.0f, 9}, 3);
  const SequenceId first = Begin(), second = Begin({1.0f, 9});
  const auto result =
      verifier().Verify({{first, kCached, TreeOver(kPrompt.back(), greedy.data(), 2)},
                         {{4711, 0}, 0, DraftTree(1)},
                         {second, kCached, TreeOver(kPrompt.back(), sampled.data(), 1)}},
                        {});
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->outcomes.size(), 3u);
  EXPECT_EQ(result->outcomes[0].acceptance.next, greedy[2]);
  EXPECT_TRUE(absl::IsNotFound(result->outcomes[1].status)) << result->outcomes[1].status;
  EXPECT_EQ(result->outcomes[2].acceptance.next, sampled[1]);
}

TEST_P(VerifierConformanceTest, TheTraceHasRowsAndContexts) {
  const SequenceId first = Begin(), second = Begin();
  DraftTree tree(kPrompt.back());
  tree.Add(0, 1, -1);
  tree.Add(0, 2, -1);
  const auto result =
      verifier().Verify({{first, kCached, tree}, {second, kCached, DraftTree(kPrompt.back())}}, {});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->trace.rows, 4);
  EXPECT_EQ(result->trace.contexts, (std::vector<int>{kCached, kCached}));
  EXPECT_GT(result->trace.forward, absl::ZeroDuration());
  EXPECT_GE(result->trace.verify(), result->trace.forward);
}

TEST_P(VerifierConformanceTest, AnUnknownSequenceIsNotFound) {
  EXPECT_TRUE(absl::IsNotFound(VerifyOne({{4711, 0}, 0, DraftTree(1)}).status));
  EXPECT_TRUE(absl::IsNotFound(verifier().Prefill({{4711, 0}, 0, {1, 2}}).status()));
}

TEST_P(VerifierConformanceTest, AStaleEpochIsRefused) {
  SequenceId id = Begin();
  --id.epoch;
  EXPECT_TRUE(absl::IsFailedPrecondition(Open(id)));
  EXPECT_TRUE(absl::IsFailedPrecondition(verifier().Prefill({id, kCached, {1}}).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(VerifyOne({id, kCached, DraftTree(1)}).status));
  verifier().Close(id);  // A late Close must not close the newer epoch.
  ++id.epoch;
  EXPECT_TRUE(VerifyOne({id, kCached, DraftTree(1)}).status.ok());
}

TEST_P(VerifierConformanceTest, TheSameEpochCannotBeOpenedTwice) {
  EXPECT_TRUE(absl::IsAlreadyExists(Open(Begin())));
}

TEST_P(VerifierConformanceTest, AHigherEpochStartsANewSequence) {
  SequenceId id = Begin();
  const std::vector<TokenId> text = PlainText({}, 1);
  ++id.epoch;
  ASSERT_TRUE(Open(id).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(VerifyOne({id, kCached, DraftTree(1)}).status));
  ASSERT_TRUE(verifier().Prefill({id, 0, {kPrompt.begin(), kPrompt.end() - 1}}).ok());
  EXPECT_EQ(VerifyOne({id, kCached, DraftTree(kPrompt.back())}).acceptance.next, text[0]);
}

TEST_P(VerifierConformanceTest, RefusesACachedCountThatDiffersFromTheCommittedTokens) {
  const SequenceId id = Begin();
  for (const Position cached : {-1, 0, kCached - 1, kCached + 1}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(VerifyOne({id, cached, DraftTree(1)}).status));
    EXPECT_TRUE(absl::IsFailedPrecondition(verifier().Prefill({id, cached, {1}}).status()));
  }
}

TEST_P(VerifierConformanceTest, RefusesTokensOutsideTheVocabulary) {
  const SequenceId id = Begin();
  for (const TokenId token : {-1, vocabulary_}) {
    EXPECT_TRUE(absl::IsInvalidArgument(VerifyOne({id, kCached, DraftTree(token)}).status));
    EXPECT_TRUE(absl::IsInvalidArgument(verifier().Prefill({id, kCached, {token}}).status()));
  }
}

TEST_P(VerifierConformanceTest, TooManyRowsAreRefusedAndChangeNothing) {
  const SequenceId id = Begin();
  DraftTree tree(kPrompt.back());
  for (int i = 0; i < info_.max_rows; ++i) tree.Add(NodeIndex::Of(i), i % vocabulary_, -1);
  EXPECT_TRUE(absl::IsInvalidArgument(verifier().Verify({{id, kCached, tree}}, {}).status()));
  EXPECT_TRUE(VerifyOne({id, kCached, DraftTree(kPrompt.back())}).status.ok());
}

TEST_P(VerifierConformanceTest, RefusesTokensBeyondTheContext) {
  const SequenceId id = Begin();
  const std::vector<TokenId> rest(info_.max_context - kCached, 1);
  ASSERT_TRUE(verifier().Prefill({id, kCached, rest}).ok());
  const auto full = static_cast<Position>(kCached + rest.size());
  EXPECT_TRUE(absl::IsOutOfRange(verifier().Prefill({id, full, {1}}).status()));
  EXPECT_TRUE(absl::IsOutOfRange(VerifyOne({id, full, DraftTree(1)}).status));
}

TEST_P(VerifierConformanceTest, CloseDropsTheStateAndIgnoresUnknownSequences) {
  const SequenceId id = Begin();
  verifier().Close(id);
  verifier().Close(id);
  verifier().Close({4711, 0});
  EXPECT_TRUE(absl::IsNotFound(VerifyOne({id, kCached, DraftTree(1)}).status));
  EXPECT_TRUE(Open(id).ok());
}

INSTANTIATE_TEST_SUITE_P(Kinds, VerifierConformanceTest,
                         ::testing::ValuesIn(testing::KindsUnderTest()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace bastion
