// Tests that the rows of one forward do not influence each other, on a tiny random checkpoint.
#include "engine/program/local_device.h"
#include "gtest/gtest.h"
#include "tests/support/golden_file.h"
#include "verifier_service/engine/verifier_engine.h"

namespace bastion::verifier {
namespace {

constexpr int kTokens = 256;

// The bits of a prompt's features, and the tokens after it, must not depend on what else is in its
// forwards. The sequence that decodes beside it must not notice the prompt either.
class MixedForwardTest : public ::testing::TestWithParam<WeightFormat> {
 protected:
  static constexpr SequenceId kAlone = {1, 0}, kMixed = {2, 0}, kDecoding = {3, 0};
  static constexpr int kPromptTokens = 70;  // More than four pages.

  MixedForwardTest() {
    VerifierOptions options;
    options.target_folder = testing::GoldenFolder("gqa2_untied_draft2") + "/target";
    options.engine = {nn::FormatsFor(GetParam()), device_.device, /*kv_tokens=*/1024};
    engine_ = *VerifierEngine::Create(options);
    EXPECT_TRUE(engine_->SetFeatureLayers({0, 2}).ok());
    for (int i = 0; i < kPromptTokens; ++i) prompt_.push_back(i * 31 % kTokens);
    for (const SequenceId id : {kAlone, kMixed, kDecoding}) {
      EXPECT_TRUE(engine_->Open(id, {{1.0f, 3}}).ok());
    }
  }

  // Decodes one token after each of the sequences `items`, and commits `prompts`.
  std::vector<TokenId> Step(const Forest& items, const std::vector<PrefillItem>& prompts = {}) {
    const auto result = engine_->Verify(items, prompts);
    EXPECT_TRUE(result.ok()) << result.status();
    std::vector<TokenId> next;
    for (const VerifyOutcome& outcome : result->outcomes) {
      EXPECT_TRUE(outcome.status.ok()) << outcome.status;
      next.push_back(outcome.acceptance.next);
    }
    for (const absl::Status& status : result->prompts) EXPECT_TRUE(status.ok()) << status;
    return next;
  }
  std::string FeaturesOf(SequenceId id, int rows) {
    const auto features = engine_->features().Read({id, 0, rows}, absl::ZeroDuration());
    EXPECT_TRUE(features.ok()) << features.status();
    return features.ok() ? features->bytes : "";
  }

  nn::LocalDevice device_ = *nn::OpenLocalDevice(2);
  std::unique_ptr<VerifierEngine> engine_;
  std::vector<TokenId> prompt_;
};

TEST_P(MixedForwardTest, APromptHasTheSameBitsAsAlone) {
  ASSERT_TRUE(engine_->Prefill({kAlone, 0, prompt_}).ok());
  Position decoded = 0, committed = 0;
  TokenId root = 9;
  for (const int chunk : {1, 3, 17, 30, 2, 16, 1}) {
    DraftTree tree(root);
    for (int i = 0; i < decoded % 4; ++i) tree.Add(NodeIndex::Of(i / 2), 40 + i, -1.0f);
    const auto first = prompt_.begin() + committed;
    const auto result = engine_->Verify({{kDecoding, decoded, tree}},
                                        {{kMixed, committed, {first, first + chunk}}});
    ASSERT_TRUE(result.ok() && result->prompts[0].ok()) << result.status();
    decoded += result->outcomes[0].acceptance.committed_length();
    root = result->outcomes[0].acceptance.next;
    committed += chunk;
  }
  ASSERT_EQ(committed, kPromptTokens);
  EXPECT_EQ(FeaturesOf(kMixed, committed), FeaturesOf(kAlone, committed));
  TokenId alone = 11, mixed = 11;
  for (int i = 0; i < 5; ++i) {
    alone = Step({{kAlone, committed + i, DraftTree(alone)}})[0];
    mixed = Step({{kMixed, committed + i, DraftTree(mixed)}})[0];
    ASSERT_EQ(mixed, alone) << i;
  }
  EXPECT_EQ(FeaturesOf(kMixed, committed + 5), FeaturesOf(kAlone, committed + 5));
}

TEST_P(MixedForwardTest, ADecodingSequenceHasTheSameBitsAsAlone) {
  TokenId alone = 9, mixed = 9;
  for (int i = 0; i < 7; ++i) {
    alone = Step({{kAlone, i, DraftTree(alone)}})[0];
    const auto first = prompt_.begin() + 10 * i;
    mixed = Step({{kDecoding, i, DraftTree(mixed)}}, {{kMixed, 10 * i, {first, first + 10}}})[0];
    ASSERT_EQ(mixed, alone) << i;
  }
  EXPECT_EQ(FeaturesOf(kDecoding, 7), FeaturesOf(kAlone, 7));
}

INSTANTIATE_TEST_SUITE_P(DTypes, MixedForwardTest, ::testing::ValuesIn(kWeightFormats),
                         [](const auto& info) { return std::string(Name(info.param)); });

}  // namespace
}  // namespace bastion::verifier
