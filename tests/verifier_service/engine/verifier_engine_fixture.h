// The fixture of the tests of the verifier engine: one engine on a tiny random checkpoint.
#ifndef BASTION_TESTS_VERIFIER_SERVICE_ENGINE_VERIFIER_ENGINE_FIXTURE_H_
#define BASTION_TESTS_VERIFIER_SERVICE_ENGINE_VERIFIER_ENGINE_FIXTURE_H_

#include <memory>
#include <vector>

#include "engine/program/local_device.h"
#include "gtest/gtest.h"
#include "tests/support/golden_file.h"
#include "verifier_service/engine/verifier_engine.h"

namespace bastion::verifier {

inline constexpr int kVocabulary = 256;
inline constexpr int kContext = 256;
inline constexpr int kMaxRows = 64;
inline constexpr SequenceId kSequence = {1, 0};
inline const std::vector<TokenId> kPrompt = {3, 141, 59, 26, 53, 58, 97, 93, 23, 84};

class VerifierEngineTest : public ::testing::Test {
 protected:
  // One engine for all tests, because a new engine first measures the device.
  static void SetUpTestSuite() {
    auto device = nn::OpenLocalDevice(2);
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
    auto engine = VerifierEngine::Create(Options());
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
    all_tokens_ = engine_->free_kv_tokens();
  }
  static void TearDownTestSuite() {
    engine_.reset();
    device_ = {};
  }

  // REQUIRES: SetUpTestSuite has opened the device.
  static VerifierOptions Options() {
    VerifierOptions options;
    options.target_folder = testing::GoldenFolder("gqa2_untied_draft2") + "/target";
    options.engine = {nn::FormatsFor(WeightFormat::kF32), device_.device, /*kv_tokens=*/1024};
    options.max_sequences = 4;
    options.max_rows = kMaxRows;
    return options;
  }

  void SetUp() override { ASSERT_NE(engine_, nullptr); }
  // Every test must leave the engine empty.
  void TearDown() override {
    for (uint64_t session = 1; session <= 5; ++session) {
      engine_->Close({session, 0});
      engine_->Close({session, 1});
    }
    EXPECT_EQ(engine_->live_sequences(), 0);
    EXPECT_EQ(engine_->free_kv_tokens(), all_tokens_);
    EXPECT_EQ(engine_->features().bytes(), 0);
    EXPECT_TRUE(engine_->SetFeatureLayers({}).ok());
  }

  // Opens a sequence and prefills all but the last token of `prompt`.
  void Begin(SequenceId id, const std::vector<TokenId>& prompt, SamplingParams sampling = {}) {
    ASSERT_TRUE(engine_->Open(id, sampling).ok());
    const auto trace = engine_->Prefill({id, 0, {prompt.begin(), prompt.end() - 1}});
    ASSERT_TRUE(trace.ok()) << trace.status();
  }

  VerifyOutcome VerifyAlone(const VerifyItem& item) {
    const auto result = engine_->Verify({item}, {});
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? result->outcomes[0] : VerifyOutcome{result.status(), {}};
  }

  // Plain decoding: `count` tokens after `prompt`.
  std::vector<TokenId> Decode(const std::vector<TokenId>& prompt, SamplingParams sampling,
                              int count) {
    const SequenceId id = {1000, 0};
    Begin(id, prompt, sampling);
    std::vector<TokenId> text;
    TokenId root = prompt.back();
    auto cached = static_cast<Position>(prompt.size()) - 1;
    for (int i = 0; i < count; ++i) {
      root = VerifyAlone({id, cached++, DraftTree(root)}).acceptance.next;
      text.push_back(root);
    }
    engine_->Close(id);
    return text;
  }

  // A tree with a path of the first `hits` tokens of `text`, and a wrong sibling at every depth.
  static DraftTree TreeOver(TokenId root, const std::vector<TokenId>& text, int hits) {
    DraftTree tree(root);
    NodeIndex at = 0;
    for (int d = 0; d < hits; ++d) {
      tree.Add(at, (text[d] + 1) % kVocabulary, -1.0f - static_cast<float>(d));
      at = tree.Add(at, text[d], -1.0f - static_cast<float>(d));
    }
    tree.Add(at, (text[hits] + 1) % kVocabulary, -9.0f);
    return tree;
  }

  static inline nn::LocalDevice device_;
  static inline std::unique_ptr<VerifierEngine> engine_;
  static inline int all_tokens_ = 0;
};

}  // namespace bastion::verifier

#endif  // BASTION_TESTS_VERIFIER_SERVICE_ENGINE_VERIFIER_ENGINE_FIXTURE_H_
