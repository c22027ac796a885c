// Tests what the verifier engine does with the pages of its KV cache, on a tiny random checkpoint.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/verifier_service/engine/verifier_engine_fixture.h"
#include "tests/verifier_service/engine/wrapped_target.h"

namespace bastion::verifier {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using VerifierMemoryTest = VerifierEngineTest;

// Has no memory for the features of a second layer. As in any target, forwards then fail until
// layers are set.
class SmallTarget final : public WrappedTarget {
 public:
  using WrappedTarget::WrappedTarget;

  absl::Status SetFeatureLayers(const std::vector<int>& layers) override {
    usable_ = layers.size() < 2;
    if (!usable_) return absl::ResourceExhaustedError("the memory is full");
    return WrappedTarget::SetFeatureLayers(layers);
  }
  absl::StatusOr<std::vector<absl::StatusOr<Acceptance>>> Verify(const nn::RowBatch& batch,
                                                                 absl::Span<const TreeRows> trees,
                                                                 TimingTrace& trace) override {
    if (!usable_) return absl::FailedPreconditionError("no layers are set");
    return WrappedTarget::Verify(batch, trees, trace);
  }

 private:
  bool usable_ = true;
};

// A target without memory for features fails no sequence: the drafter gets an error, and the engine
// goes on without features.
TEST_F(VerifierMemoryTest, LayersThatDoNotFitLeaveTheEngineWithoutFeatures) {
  VerifierOptions options = Options();
  options.load_target = &LoadWrapped<SmallTarget>;
  const auto engine = VerifierEngine::Create(options);
  ASSERT_TRUE(engine.ok()) << engine.status();
  // The bytes of the features of a new sequence.
  const auto prefilled_features = [&] {
    EXPECT_TRUE((*engine)->Open(kSequence, {}).ok());
    const auto trace = (*engine)->Prefill({kSequence, 0, {3, 141, 59}});
    EXPECT_TRUE(trace.ok()) << trace.status();
    const int64_t bytes = (*engine)->features().bytes();
    (*engine)->Close(kSequence);
    return bytes;
  };
  ASSERT_TRUE((*engine)->SetFeatureLayers({1}).ok());
  EXPECT_GT(prefilled_features(), 0);
  for (int attempt = 0; attempt < 2; ++attempt) {  // A drafter connects again and again.
    const absl::Status refused = (*engine)->SetFeatureLayers({0, 1});
    EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
    EXPECT_EQ(prefilled_features(), 0);
  }
  ASSERT_TRUE((*engine)->SetFeatureLayers({1}).ok());
  EXPECT_GT(prefilled_features(), 0);
}

// Has no memory for any forward.
class FullTarget final : public WrappedTarget {
 public:
  using WrappedTarget::WrappedTarget;

  absl::StatusOr<std::vector<absl::StatusOr<Acceptance>>> Verify(const nn::RowBatch&,
                                                                 absl::Span<const TreeRows>,
                                                                 TimingTrace&) override {
    return absl::ResourceExhaustedError("cudaMalloc of 7 bytes failed");
  }
};

// A client that took it for a full cache would wait for pages that are free already.
TEST_F(VerifierMemoryTest, AForwardWithoutDeviceMemoryIsNotTakenForAFullCache) {
  VerifierOptions options = Options();
  options.load_target = &LoadWrapped<FullTarget>;
  const auto engine = VerifierEngine::Create(options);
  ASSERT_TRUE(engine.ok()) << engine.status();
  for (const uint64_t session : {1, 2}) ASSERT_TRUE((*engine)->Open({session, 0}, {}).ok());
  const VerifyItem tree = {{1, 0}, 0, DraftTree(5)};
  const PrefillItem prompt = {{2, 0}, 0, {3, 4}};
  const auto result = (*engine)->Verify({tree}, {prompt});
  ASSERT_TRUE(result.ok()) << result.status();
  for (const absl::Status& status : {result->outcomes[0].status, result->prompts[0]}) {
    EXPECT_TRUE(absl::IsInternal(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("cudaMalloc of 7 bytes failed"));
  }
  EXPECT_EQ(result->free_kv_tokens, all_tokens_);
}

TEST_F(VerifierMemoryTest, ATreeWithoutFreePagesIsVerifiedAsItsRoot) {
  // 4 · 250 of 1024 tokens are in use, so there are no pages for a tree of 63 rows.
  for (uint64_t s = 1; s <= 4; ++s) Begin({s, 0}, std::vector<TokenId>(251, 5));
  DraftTree tree(5);
  for (int i = 0; i < kMaxRows - 2; ++i) tree.Add(0, i, -1);
  const auto result = engine_->Verify({{{1, 0}, 250, tree}, {{2, 0}, 250, DraftTree(5)}}, {});
  ASSERT_TRUE(result.ok()) << result.status();
  for (const VerifyOutcome& outcome : result->outcomes) {
    EXPECT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_THAT(outcome.acceptance.path, IsEmpty());
  }
  EXPECT_EQ(result->outcomes[0].acceptance, result->outcomes[1].acceptance);
  EXPECT_EQ(result->trace.rows, 2);
}

// Every token of the vocabulary is forbidden, so none can be chosen.
TEST_F(VerifierMemoryTest, ARejectedTreeGivesItsPagesBack) {
  SamplingParams sampling;
  sampling.min_tokens = 100;
  for (TokenId token = 0; token < kVocabulary; ++token) sampling.stop_tokens.push_back(token);
  Begin(kSequence, kPrompt, sampling);
  const int before = engine_->free_kv_tokens();
  DraftTree tree(kPrompt.back());
  for (int i = 0; i < 2 * kernels::kPageTokens; ++i) tree.Add(0, i, -1);
  const VerifyOutcome outcome = VerifyAlone({kSequence, 9, tree});
  EXPECT_TRUE(absl::IsDataLoss(outcome.status)) << outcome.status;
  EXPECT_EQ(engine_->free_kv_tokens(), before);
}

// A preempted sequence starts over with its prompt and its output so far.
TEST_F(VerifierMemoryTest, TextAfterAPreemptionIsTheTextOfPlainDecoding) {
  SamplingParams sampling = {{0.9f, 5, 50, 0.95f}, 1.4f, 0.5f, 0.6f, {{3, 2.0f}}};
  sampling.prompt_tokens = static_cast<int>(kPrompt.size());
  sampling.min_tokens = 6;
  sampling.stop_tokens = {7};
  const std::vector<TokenId> text = Decode(kPrompt, sampling, 10);
  for (const size_t generated : {1, 4, 7}) {
    std::vector<TokenId> so_far = kPrompt;
    so_far.insert(so_far.end(), text.begin(), text.begin() + generated);
    const SequenceId id = {1, static_cast<uint32_t>(generated)};  // Closes the epoch before it.
    Begin(id, so_far, sampling);
    const std::vector<TokenId> rest(text.begin() + generated, text.end());
    const VerifyOutcome outcome = VerifyAlone(
        {id, static_cast<Position>(so_far.size()) - 1, TreeOver(so_far.back(), rest, 2)});
    EXPECT_EQ(outcome.acceptance.path.size(), 2u);
    EXPECT_EQ(outcome.acceptance.next, rest[2]) << generated;
  }
  engine_->Close({1, 7});
}

TEST_F(VerifierMemoryTest, CloseFreesAllPages) {
  ASSERT_TRUE(engine_->SetFeatureLayers({1}).ok());
  for (uint64_t s = 1; s <= 4; ++s) Begin({s, 0}, kPrompt);
  EXPECT_TRUE(absl::IsResourceExhausted(engine_->Open({5, 0}, {})));
  DraftTree tree(kPrompt.back());
  for (int i = 0; i < 40; ++i) tree.Add(0, i, -1);
  (void)VerifyAlone({{1, 0}, 9, tree});
  EXPECT_LT(engine_->free_kv_tokens(), all_tokens_);
  for (uint64_t s = 1; s <= 4; ++s) engine_->Close({s, 0});
  engine_->Close({4, 0});  // Closing twice, or an unknown sequence, does nothing.
  engine_->Close({77, 3});
  EXPECT_EQ(engine_->free_kv_tokens(), all_tokens_);
  EXPECT_EQ(engine_->live_sequences(), 0);
  EXPECT_EQ(engine_->features().bytes(), 0);
}

TEST_F(VerifierMemoryTest, AHigherEpochFreesThePagesOfTheOldEpoch) {
  ASSERT_TRUE(engine_->SetFeatureLayers({1}).ok());
  Begin({1, 0}, kPrompt);
  ASSERT_TRUE(engine_->Open({1, 1}, {}).ok());
  EXPECT_EQ(engine_->free_kv_tokens(), all_tokens_);
  EXPECT_EQ(engine_->features().bytes(), 0);
}

}  // namespace
}  // namespace bastion::verifier
