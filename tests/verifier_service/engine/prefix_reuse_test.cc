// Tests how the verifier engine keeps the features of reused prefixes, on a tiny random checkpoint.
// What every verifier does with prefixes is tested in tests/conformance.
#include "gtest/gtest.h"
#include "tests/verifier_service/engine/verifier_engine_fixture.h"

namespace bastion::verifier {
namespace {

constexpr int kPage = kernels::kPageTokens;

class PrefixReuseTest : public ::testing::Test {
 protected:
  void MakeEngine(int64_t feature_bytes, bool reuse_prefixes = true) {
    auto device = nn::OpenLocalDevice(2);
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
    VerifierOptions options;
    options.target_folder = testing::GoldenFolder("gqa2_untied_draft2") + "/target";
    options.engine = {nn::FormatsFor(WeightFormat::kF32), device_.device, /*kv_tokens=*/1024};
    options.feature_bytes = feature_bytes;
    options.reuse_prefixes = reuse_prefixes;
    auto engine = VerifierEngine::Create(options);
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
  }
  // `pages` full pages that begin with `first`.
  static std::vector<TokenId> Tokens(int pages, TokenId first) {
    std::vector<TokenId> tokens(pages * kPage, 7);
    tokens[0] = first;
    return tokens;
  }
  // Opens a sequence and commits `tokens`. Returns how many of them were reused.
  int Begin(SequenceId id, const std::vector<TokenId>& tokens) {
    EXPECT_TRUE(engine_->Open(id, {}).ok());
    const int reused = *engine_->ReusePrefix({id, tokens, ""});
    const std::vector<TokenId> rest(tokens.begin() + reused, tokens.end());
    if (!rest.empty()) {
      EXPECT_TRUE(engine_->Prefill({id, reused, rest}).ok());
    }
    return reused;
  }
  int RunOnce(const std::vector<TokenId>& tokens) {
    const SequenceId id = {++sessions_, 0};
    const int reused = Begin(id, tokens);
    engine_->Close(id);
    return reused;
  }
  std::string FeaturesOf(SequenceId id, int rows) {
    const auto read = engine_->features().Read({id, 0, rows}, absl::ZeroDuration());
    EXPECT_TRUE(read.ok()) << read.status();
    return read.ok() ? read->bytes : "";
  }

  static constexpr int64_t kLargeLimit = int64_t{1} << 30;
  nn::LocalDevice device_;
  std::unique_ptr<VerifierEngine> engine_;
  uint64_t sessions_ = 100;
};

TEST_F(PrefixReuseTest, AReusedPrefixHasTheFeaturesOfTheFirstSequence) {
  MakeEngine(kLargeLimit);
  ASSERT_TRUE(engine_->SetFeatureLayers({0, 1}).ok());
  const std::vector<TokenId> tokens = Tokens(3, 1);
  EXPECT_EQ(Begin({1, 0}, tokens), 0);
  EXPECT_EQ(Begin({2, 0}, tokens), 3 * kPage);
  const std::string features = FeaturesOf({1, 0}, 3 * kPage);
  EXPECT_FALSE(features.empty());
  EXPECT_EQ(FeaturesOf({2, 0}, 3 * kPage), features);
}

TEST_F(PrefixReuseTest, CachedPrefixesGiveWayToTheFeaturesOfLiveSequences) {
  constexpr int kRowBytes = 32 * 4;
  MakeEngine(/*feature_bytes=*/4 * kPage * kRowBytes);
  ASSERT_TRUE(engine_->SetFeatureLayers({1}).ok());
  EXPECT_EQ(RunOnce(Tokens(3, 1)), 0);
  EXPECT_EQ(engine_->features().bytes(), 3 * kPage * kRowBytes);
  EXPECT_EQ(Begin({1, 0}, Tokens(3, 2)), 0);
  EXPECT_EQ(*engine_->features().Rows({1, 0}), 3 * kPage) << "its history was not dropped";
  EXPECT_EQ(RunOnce(Tokens(1, 1)), kPage) << "the beginning of the old prefix still fits";
}

TEST_F(PrefixReuseTest, OnlyTheLongestLiveSequenceLosesItsFeatures) {
  constexpr int kRowBytes = 32 * 4;
  MakeEngine(/*feature_bytes=*/6 * kPage * kRowBytes);
  ASSERT_TRUE(engine_->SetFeatureLayers({1}).ok());
  EXPECT_EQ(Begin({1, 0}, Tokens(3, 1)), 0);
  EXPECT_EQ(Begin({2, 0}, Tokens(1, 2)), 0);
  EXPECT_EQ(Begin({3, 0}, Tokens(1, 3)), 0);
  EXPECT_EQ(Begin({4, 0}, Tokens(2, 4)), 0);
  EXPECT_TRUE(absl::IsOutOfRange(engine_->features().Rows({1, 0}).status()));
  EXPECT_EQ(*engine_->features().Rows({2, 0}), kPage);
  EXPECT_EQ(*engine_->features().Rows({3, 0}), kPage);
  EXPECT_EQ(*engine_->features().Rows({4, 0}), 2 * kPage);
  EXPECT_EQ(engine_->features().bytes(), 4 * kPage * kRowBytes);
}

TEST_F(PrefixReuseTest, PagesWithoutTheFeaturesOfTheDrafterAreNotReused) {
  MakeEngine(kLargeLimit);
  EXPECT_EQ(RunOnce(Tokens(2, 1)), 0);
  EXPECT_EQ(RunOnce(Tokens(2, 1)), 2 * kPage) << "without a drafter, there are no features";
  EXPECT_EQ(Begin({1, 0}, Tokens(1, 2)), 0);
  ASSERT_TRUE(engine_->SetFeatureLayers({0}).ok());
  EXPECT_EQ(RunOnce(Tokens(2, 1)), 0);
  // A sequence that was opened without features goes on.
  ASSERT_TRUE(engine_->Prefill({{1, 0}, kPage, std::vector<TokenId>(kPage, 7)}).ok());
  EXPECT_EQ(RunOnce(Tokens(2, 2)), 0);
  engine_->Close({1, 0});
  EXPECT_EQ(RunOnce(Tokens(2, 2)), 2 * kPage);
  ASSERT_TRUE(engine_->SetFeatureLayers({0}).ok());
  EXPECT_EQ(RunOnce(Tokens(2, 2)), 2 * kPage) << "the same drafter connected again";
  ASSERT_TRUE(engine_->SetFeatureLayers({1}).ok());
  EXPECT_EQ(RunOnce(Tokens(2, 2)), 0);
}

TEST_F(PrefixReuseTest, NothingIsReusedIfItIsOff) {
  MakeEngine(kLargeLimit, /*reuse_prefixes=*/false);
  EXPECT_EQ(RunOnce(Tokens(2, 1)), 0);
  EXPECT_EQ(RunOnce(Tokens(2, 1)), 0);
}

}  // namespace
}  // namespace bastion::verifier
