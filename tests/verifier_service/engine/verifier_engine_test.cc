// Tests the verifier engine on a tiny random checkpoint: it refuses invalid calls, and
// batching does not change the tokens of a sequence.
#include "verifier_service/engine/verifier_engine.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/verifier_service/engine/verifier_engine_fixture.h"

namespace bastion::verifier {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(VerifierEngineTest, ReportsItsInfo) {
  const TargetInfo& info = engine_->info();
  EXPECT_EQ(info.model, "target");
  EXPECT_EQ(info.dims.vocabulary, kVocabulary);
  EXPECT_EQ(info.dims.bytes_per_weight, 4);
  EXPECT_EQ(info.max_context, kContext);
  EXPECT_EQ(info.max_rows, kMaxRows);
  EXPECT_EQ(info.kv_tokens, 1024);
  EXPECT_EQ(info.page_tokens, kernels::kPageTokens);
  EXPECT_GT(info.peaks.bytes_per_second, 0);
  EXPECT_GT(info.peaks.flops_per_second, 0);
}

TEST_F(VerifierEngineTest, ADrafterFolderIsRefused) {
  VerifierOptions options;
  options.target_folder = testing::GoldenFolder("gqa2_untied_draft2") + "/drafter";
  options.engine = {nn::FormatsFor(WeightFormat::kF32), device_.device, 64};
  const auto engine = VerifierEngine::Create(options);
  EXPECT_TRUE(absl::IsInvalidArgument(engine.status())) << engine.status();
}

TEST_F(VerifierEngineTest, FeatureLayersOutsideTheTargetAreRefused) {
  EXPECT_TRUE(absl::IsInvalidArgument(engine_->SetFeatureLayers({0, 4})));
  EXPECT_TRUE(absl::IsInvalidArgument(engine_->SetFeatureLayers({-1})));
  ASSERT_TRUE(engine_->SetFeatureLayers({0, 2}).ok());
  Begin(kSequence, kPrompt);
  EXPECT_TRUE(engine_->SetFeatureLayers({0, 2}).ok());  // Setting the same layers changes nothing.
  EXPECT_TRUE(engine_->features().Rows(kSequence).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(engine_->SetFeatureLayers({0, 0})));
  EXPECT_TRUE(engine_->features().Rows(kSequence).ok());
  // Open sequences lose their features, which have another width.
  ASSERT_TRUE(engine_->SetFeatureLayers({1}).ok());
  EXPECT_TRUE(absl::IsOutOfRange(engine_->features().Rows(kSequence).status()));
  EXPECT_TRUE(engine_->Prefill({kSequence, 9, {1}}).ok());
}

TEST_F(VerifierEngineTest, PrefillRefusesTokensThatDoNotContinueTheSequence) {
  EXPECT_TRUE(absl::IsNotFound(engine_->Prefill({kSequence, 0, {1}}).status()));
  Begin(kSequence, kPrompt);
  EXPECT_TRUE(absl::IsFailedPrecondition(engine_->Prefill({kSequence, 0, {1}}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(engine_->Prefill({kSequence, 9, {1, 256}}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(engine_->Prefill({kSequence, 9, {-1}}).status()));
  EXPECT_TRUE(engine_->Prefill({kSequence, 9, {}}).ok());
  EXPECT_TRUE(engine_->Prefill({kSequence, 9, {1, 2}}).ok());  // The refused calls changed nothing.
}

TEST_F(VerifierEngineTest, AnErrorEndsAPrefillAfterItsLastWholeCall) {
  ASSERT_TRUE(engine_->Open(kSequence, {}).ok());
  const std::vector<TokenId> too_long(kContext + 1, 1);  // Only the last token does not fit.
  EXPECT_TRUE(absl::IsOutOfRange(engine_->Prefill({kSequence, 0, too_long}).status()));
  EXPECT_TRUE(absl::IsOutOfRange(VerifyAlone({kSequence, kContext, DraftTree(1)}).status));
  EXPECT_EQ(engine_->free_kv_tokens(), all_tokens_ - kContext);
}

TEST_F(VerifierEngineTest, PrefillInPiecesEqualsOnePrefill) {
  Begin({1, 0}, kPrompt);
  ASSERT_TRUE(engine_->Open({2, 0}, {}).ok());
  for (Position i = 0; i < 9; ++i) {
    ASSERT_TRUE(engine_->Prefill({{2, 0}, i, {kPrompt[i]}}).ok());
  }
  const VerifyOutcome whole = VerifyAlone({{1, 0}, 9, DraftTree(kPrompt.back())});
  const VerifyOutcome pieces = VerifyAlone({{2, 0}, 9, DraftTree(kPrompt.back())});
  EXPECT_EQ(whole.acceptance, pieces.acceptance);
}

TEST_F(VerifierEngineTest, InvalidTreesAreRefused) {
  Begin(kSequence, kPrompt);
  DraftTree tree(kPrompt.back());
  tree.Add(0, kVocabulary, -1);
  EXPECT_TRUE(absl::IsInvalidArgument(VerifyAlone({kSequence, 9, tree}).status));
  EXPECT_TRUE(absl::IsInvalidArgument(VerifyAlone({kSequence, 9, DraftTree(-1)}).status));
  DraftTree twins(kPrompt.back());
  twins.Add(0, 4, -1);
  twins.Add(0, 4, -1);
  EXPECT_TRUE(absl::IsInvalidArgument(VerifyAlone({kSequence, 9, twins}).status));
}

TEST_F(VerifierEngineTest, AWrongNumberOfCachedTokensIsRefused) {
  Begin(kSequence, kPrompt);
  for (const Position cached : {-1, 0, 8, 10}) {
    const VerifyOutcome outcome = VerifyAlone({kSequence, cached, DraftTree(1)});
    EXPECT_TRUE(absl::IsFailedPrecondition(outcome.status)) << cached << outcome.status;
  }
}

TEST_F(VerifierEngineTest, RowsPastTheContextAreRefused) {
  const std::vector<TokenId> prompt(kContext, 5);
  Begin(kSequence, prompt);
  DraftTree tree(5);
  tree.Add(0, 1, -1);
  const VerifyOutcome deep = VerifyAlone({kSequence, kContext - 1, tree});
  EXPECT_TRUE(absl::IsOutOfRange(deep.status)) << deep.status;
  EXPECT_TRUE(VerifyAlone({kSequence, kContext - 1, DraftTree(5)}).status.ok());
  const VerifyOutcome full = VerifyAlone({kSequence, kContext, DraftTree(5)});
  EXPECT_TRUE(absl::IsOutOfRange(full.status)) << full.status;
}

TEST_F(VerifierEngineTest, TooManyRowsAreRefused) {
  Begin(kSequence, kPrompt);
  DraftTree tree(kPrompt.back());
  for (int i = 0; i < kMaxRows; ++i) tree.Add(0, i, -1);
  const auto result = engine_->Verify({{kSequence, 9, tree}}, {});
  EXPECT_TRUE(absl::IsInvalidArgument(result.status()));
  EXPECT_THAT(result.status().message(), HasSubstr("65 rows"));
  tree.Truncate(kMaxRows - 1);
  EXPECT_TRUE(VerifyAlone({kSequence, 9, tree}).status.ok());
}

TEST_F(VerifierEngineTest, OneBadItemDoesNotAffectTheOthers) {
  const std::vector<TokenId> expected = Decode(kPrompt, {}, 1);
  Begin({1, 0}, kPrompt);
  Begin({2, 0}, kPrompt);
  const auto result = engine_->Verify({{{9, 0}, 9, DraftTree(1)},
                                       {{1, 0}, 9, DraftTree(kPrompt.back())},
                                       {{1, 0}, 9, DraftTree(kPrompt.back())},
                                       {{2, 0}, 3, DraftTree(kPrompt.back())}},
                                      {});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(absl::IsNotFound(result->outcomes[0].status));
  ASSERT_TRUE(result->outcomes[1].status.ok());
  EXPECT_EQ(result->outcomes[1].acceptance.next, expected[0]);
  // The sequence occurs twice in the forest.
  EXPECT_TRUE(absl::IsInvalidArgument(result->outcomes[2].status));
  EXPECT_TRUE(absl::IsFailedPrecondition(result->outcomes[3].status));
  EXPECT_EQ(result->trace.rows, 1);
  EXPECT_THAT(result->trace.contexts, ElementsAre(9));
  EXPECT_TRUE(VerifyAlone({{2, 0}, 9, DraftTree(kPrompt.back())}).status.ok());
}

TEST_F(VerifierEngineTest, AForestWithoutValidItemsRunsNoForward) {
  const auto result = engine_->Verify({{kSequence, 0, DraftTree(1)}}, {});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->trace.rows, 0);
  const auto empty = engine_->Verify({}, {});
  ASSERT_TRUE(empty.ok());
  EXPECT_THAT(empty->outcomes, IsEmpty());
}

TEST_F(VerifierEngineTest, BatchingDoesNotChangeTheTokensOfASequence) {
  for (const float temperature : {0.0f, 1.0f}) {
    std::vector<VerifyItem> items;
    std::vector<Acceptance> alone;
    for (uint64_t s = 1; s <= 3; ++s) {
      std::vector<TokenId> prompt = kPrompt;
      prompt.resize(prompt.size() - s);
      const SamplingParams sampling = {temperature, s};
      const std::vector<TokenId> text = Decode(prompt, sampling, 5);
      const auto cached = static_cast<Position>(prompt.size()) - 1;
      const DraftTree tree = TreeOver(prompt.back(), text, static_cast<int>(s));
      Begin({s, 0}, prompt, sampling);
      alone.push_back(VerifyAlone({{s, 0}, cached, tree}).acceptance);
      EXPECT_EQ(alone.back().path.size(), s);
      EXPECT_EQ(alone.back().next, text[s]);
      ASSERT_TRUE(engine_->Open({s, 1}, sampling).ok());  // A new epoch for the batch.
      ASSERT_TRUE(engine_->Prefill({{s, 1}, 0, {prompt.begin(), prompt.end() - 1}}).ok());
      items.push_back({{s, 1}, cached, tree});
    }
    const auto together = engine_->Verify(items, {});
    ASSERT_TRUE(together.ok()) << together.status();
    for (size_t i = 0; i < items.size(); ++i) {
      EXPECT_EQ(together->outcomes[i].acceptance, alone[i]) << "T " << temperature << " item " << i;
    }
    for (const VerifyItem& item : items) engine_->Close(item.sequence);
  }
}

TEST_F(VerifierEngineTest, TextAfterATreeIsTheTextOfPlainDecoding) {
  const SamplingParams sampling = {1.0f, 77};
  const std::vector<TokenId> text = Decode(kPrompt, sampling, 6);
  Begin(kSequence, kPrompt, sampling);
  const Acceptance first =
      VerifyAlone({kSequence, 9, TreeOver(kPrompt.back(), text, 3)}).acceptance;
  EXPECT_EQ(first.committed_length(), 4);
  EXPECT_EQ(first.next, text[3]);
  EXPECT_EQ(VerifyAlone({kSequence, 13, DraftTree(text[3])}).acceptance.next, text[4]);
  EXPECT_EQ(VerifyAlone({kSequence, 14, DraftTree(text[4])}).acceptance.next, text[5]);
}

TEST_F(VerifierEngineTest, PenaltiesCountTheTextOfEveryCommittedTree) {
  SamplingParams sampling = {{1.0f, 5, 50, 0.95f, 0.01f}, 1.4f, 0.5f, 0.6f, {{3, 2.0f}}};
  sampling.prompt_tokens = static_cast<int>(kPrompt.size());
  sampling.min_tokens = 3;
  sampling.stop_tokens = {7};
  sampling.logprobs = 3;
  const std::vector<TokenId> text = Decode(kPrompt, sampling, 9);
  Begin(kSequence, kPrompt, sampling);
  std::vector<TokenId> generated;
  TokenId root = kPrompt.back();
  auto cached = static_cast<Position>(kPrompt.size()) - 1;
  for (const int hits : {2, 0, 3}) {
    const std::vector<TokenId> rest(text.begin() + generated.size(), text.end());
    const Acceptance walked =
        VerifyAlone({kSequence, cached, TreeOver(root, rest, hits)}).acceptance;
    ASSERT_EQ(walked.path.size(), static_cast<size_t>(hits));
    EXPECT_EQ(walked.logprobs.size(), walked.path.size() + 1);
    generated.insert(generated.end(), rest.begin(), rest.begin() + hits);
    generated.push_back(walked.next);
    root = walked.next;
    cached += walked.committed_length();
  }
  EXPECT_EQ(generated, std::vector<TokenId>(text.begin(), text.begin() + generated.size()));
}

TEST_F(VerifierEngineTest, AnAuditFindsNoMismatchAndChangesNothing) {
  VerifierOptions options;
  options.target_folder = testing::GoldenFolder("gqa2_untied_draft2") + "/target";
  options.engine = {nn::FormatsFor(WeightFormat::kF32), device_.device, /*kv_tokens=*/1024};
  options.audit.fraction = 1;
  const auto audited = *VerifierEngine::Create(options);
  const SamplingParams sampling = {{1.0f, 5, 0, 0.95f}, 1.4f};
  const std::vector<TokenId> text = Decode(kPrompt, sampling, 9);
  ASSERT_TRUE(audited->Open(kSequence, sampling).ok());
  ASSERT_TRUE(audited->Prefill({kSequence, 0, {kPrompt.begin(), kPrompt.end() - 1}}).ok());
  const auto first = audited->Verify({{kSequence, 9, TreeOver(kPrompt.back(), text, 3)}}, {});
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->audit, (AuditCounts{1, 4, 0, 0}));
  const std::vector<TokenId> rest(text.begin() + 4, text.end());
  const auto second = audited->Verify({{kSequence, 13, TreeOver(text[3], rest, 2)}}, {});
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->outcomes[0].acceptance.next, text[6]);
  EXPECT_EQ(second->audit, (AuditCounts{2, 7, 0, 0}));
  // A call with prompts alone is not audited.
  ASSERT_TRUE(audited->Open({2, 0}, {}).ok());
  const auto prompt = audited->Verify({}, {{{2, 0}, 0, {1, 2, 3}}});
  ASSERT_TRUE(prompt.ok()) << prompt.status();
  EXPECT_EQ(prompt->audit, (AuditCounts{2, 7, 0, 0}));
}

TEST_F(VerifierEngineTest, TheErrorForInvalidSamplingNamesTheField) {
  SamplingParams sampling;
  sampling.logit_bias = {{kVocabulary, 1.0f}};
  const absl::Status status = engine_->Open(kSequence, sampling);
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(status.message(), HasSubstr("logit_bias"));
}

TEST_F(VerifierEngineTest, FeaturesAreThoseOfTheCommittedRows) {
  ASSERT_TRUE(engine_->SetFeatureLayers({0, 1, 2}).ok());
  const std::vector<TokenId> text = Decode(kPrompt, {}, 3);
  Begin({1, 0}, kPrompt);
  EXPECT_EQ(*engine_->features().Rows({1, 0}), 9);
  (void)VerifyAlone({{1, 0}, 9, TreeOver(kPrompt.back(), text, 2)});
  EXPECT_EQ(*engine_->features().Rows({1, 0}), 12);
  std::vector<TokenId> whole = kPrompt;
  whole.insert(whole.end(), text.begin(), text.end());
  Begin({2, 0}, whole);
  const auto tree = engine_->features().Read({{1, 0}, 0, 12}, absl::ZeroDuration());
  const auto plain = engine_->features().Read({{2, 0}, 0, 12}, absl::ZeroDuration());
  ASSERT_TRUE(tree.ok() && plain.ok());
  EXPECT_EQ(tree->width, 3 * 32);
  EXPECT_EQ(tree->bytes, plain->bytes);
}

}  // namespace
}  // namespace bastion::verifier
