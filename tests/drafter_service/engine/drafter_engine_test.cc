// Tests the drafter engine on a tiny random checkpoint. A draft made ahead must equal a draft made
// on request.
#include "drafter_service/engine/drafter_engine.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/base/random.h"
#include "engine/program/local_device.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/golden_file.h"

namespace bastion::drafter {
namespace {

constexpr SequenceId kSequence = {1, 0};

// Every row is a function of its position. Counts the reads.
class SyntheticFeatures final : public FeatureSource {
 public:
  explicit SyntheticFeatures(int width) : width_(width) {}
  absl::StatusOr<Features> Read(const FeatureRange& range, absl::Duration) override {
    ++reads_;
    rows_ += range.count;
    Features features;
    features.width = width_;
    features.bytes.resize(range.count * features.row_bytes());
    for (int i = 0; i < range.count * width_; ++i) {
      const float value = std::sin(static_cast<float>(range.first * width_ + i));
      std::memcpy(features.bytes.data() + 4 * i, &value, 4);
    }
    return features;
  }
  [[nodiscard]] int reads() const { return reads_; }
  [[nodiscard]] int rows() const { return rows_; }

 private:
  const int width_;
  int reads_ = 0, rows_ = 0;
};

class DrafterEngineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto device = nn::OpenLocalDevice(2);
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
  }
  std::unique_ptr<DrafterEngine> MakeEngine(SyntheticFeatures& features,
                                            WeightFormat weights = WeightFormat::kF32) {
    const std::string folder = testing::GoldenFolder("gqa2_untied_draft2");
    DrafterOptions options;
    options.drafter_folder = folder + "/drafter";
    options.target_folder = folder + "/target";
    options.engine = {nn::FormatsFor(weights), device_.device, /*kv_tokens=*/1024};
    auto engine = DrafterEngine::Create(options, &features);
    EXPECT_TRUE(engine.ok()) << engine.status();
    return *std::move(engine);
  }
  static Frontier MakeFrontier(Position committed, TokenId root) {
    Frontier frontier;
    frontier.sequence = kSequence;
    frontier.committed = committed;
    frontier.root = root;
    frontier.candidates = 8;
    return frontier;
  }

  nn::LocalDevice device_;
};

TEST_F(DrafterEngineTest, ADraftMadeAheadEqualsTheDraftMadeOnRequest) {
  const int width = 3 * 32;
  SyntheticFeatures request_features(width), ahead_features(width);
  const auto request_engine = MakeEngine(request_features);
  const auto ahead_engine = MakeEngine(ahead_features);
  ASSERT_EQ(*request_engine->Expand({MakeFrontier(9, 3)}),
            *ahead_engine->Expand({MakeFrontier(9, 3)}));
  Position committed = 9;
  for (const TokenId root : {17, 4, 200}) {
    committed += 1 + root % 3;
    ahead_engine->FeaturesArrived(kSequence, committed, root);
    const int reads = ahead_features.reads();
    const auto actual = ahead_engine->Expand({MakeFrontier(committed, root)});
    EXPECT_EQ(ahead_features.reads(), reads) << "the features were read again";
    const auto expected = request_engine->Expand({MakeFrontier(committed, root)});
    ASSERT_TRUE(actual.ok() && expected.ok()) << actual.status() << expected.status();
    EXPECT_FALSE(actual->at(0).marginals.at(0).empty());
    EXPECT_EQ(*actual, *expected);
  }
}

TEST_F(DrafterEngineTest, SequencesTogetherGetTheDraftsThatTheyGetAlone) {
  SyntheticFeatures together_features(3 * 32), alone_features(3 * 32);
  const auto together = MakeEngine(together_features), alone = MakeEngine(alone_features);
  for (const Position more : {0, 4, 7}) {
    std::vector<Frontier> all;
    for (const Position committed : {9, 31, 5}) {
      all.push_back(MakeFrontier(committed + more, 3 + more));
      all.back().sequence = {all.size(), 0};
    }
    const auto drafts = together->Expand(all);
    ASSERT_TRUE(drafts.ok()) << drafts.status();
    for (size_t i = 0; i < all.size(); ++i) {
      const auto draft = alone->Expand({all[i]});
      ASSERT_TRUE(draft.ok()) << draft.status();
      EXPECT_FALSE(draft->at(0).marginals.at(0).empty());
      EXPECT_EQ(draft->at(0), drafts->at(i)) << "sequence " << i << " after " << more;
    }
  }
}

TEST_F(DrafterEngineTest, ACoupledDraftRanksByTheNoiseOfEachPosition) {
  SyntheticFeatures features(3 * 32);
  const auto engine = MakeEngine(features);
  Frontier frontier = MakeFrontier(20, 3);
  frontier.candidates = 100000;  // The whole vocabulary.
  const auto plain = engine->Expand({frontier});
  frontier.sampling = {0.7f, /*seed=*/11};
  frontier.coupled = true;
  const auto coupled = engine->Expand({frontier});
  frontier.sampling.temperature = 0;
  const auto greedy = engine->Expand({frontier});
  ASSERT_TRUE(plain.ok() && coupled.ok() && greedy.ok());
  const Marginals& q = plain->at(0).marginals.at(0);
  const Marginals& ranked = coupled->at(0).marginals.at(0);
  EXPECT_EQ(greedy->at(0).marginals.at(0), q) << "no noise at temperature 0";
  ASSERT_EQ(ranked.candidates, q.candidates);
  for (int p = 0; p < q.positions; ++p) {
    // The root is at position 20, so the first drafted token is at 21.
    std::vector<std::pair<double, TokenId>> expected;
    double sum = 0;
    for (int rank = 0; rank < q.candidates; ++rank) {
      const TokenId token = q.token(p, rank);
      const double value = q.log_prob(p, rank) / 0.7 + KeyedGumbel(11, 21 + p, token);
      expected.emplace_back(value, token);
      sum += std::exp(value);
    }
    std::sort(expected.rbegin(), expected.rend());
    for (int rank = 0; rank < 20; ++rank) {
      EXPECT_EQ(ranked.token(p, rank), expected[rank].second) << p << " " << rank;
      EXPECT_NEAR(ranked.log_prob(p, rank), expected[rank].first - std::log(sum), 1e-3);
    }
  }
}

TEST_F(DrafterEngineTest, ACoupledDraftExcludesTokensThatTheTargetExcludes) {
  SyntheticFeatures features(3 * 32);
  const auto engine = MakeEngine(features);
  Frontier frontier = MakeFrontier(20, 3);
  frontier.candidates = 16;
  frontier.coupled = true;
  frontier.sampling = {1.0f, /*seed=*/11, /*top_k=*/3};
  const auto drafts = engine->Expand({frontier});
  ASSERT_TRUE(drafts.ok()) << drafts.status();
  const Marginals& ranked = drafts->at(0).marginals.at(0);
  EXPECT_TRUE(ranked.Validate(100000).ok());
  for (int p = 0; p < ranked.positions; ++p) {
    EXPECT_TRUE(std::isfinite(ranked.log_prob(p, 5))) << "twice top_k candidates remain";
    EXPECT_TRUE(std::isinf(ranked.log_prob(p, 6)));
  }
}

// How much rounding changes a single log-probability depends on the CPU (for example, on bf16
// matrix instructions), so the mean over many is compared.
TEST_F(DrafterEngineTest, Int8WeightsGiveNearlyTheSameProbabilitiesAsFp32) {
  SyntheticFeatures exact_features(3 * 32), rounded_features(3 * 32);
  const auto exact = MakeEngine(exact_features);
  const auto rounded = MakeEngine(rounded_features, WeightFormat::kInt8);
  double difference = 0;
  int compared = 0;
  for (Position committed = 20; committed < 60; ++committed) {
    const auto expected = exact->Expand({MakeFrontier(committed, 3)});
    const auto actual = rounded->Expand({MakeFrontier(committed, 3)});
    ASSERT_TRUE(expected.ok() && actual.ok()) << expected.status() << actual.status();
    const Marginals& a = expected->at(0).marginals.at(0);
    const Marginals& b = actual->at(0).marginals.at(0);
    ASSERT_EQ(a.positions, b.positions);
    EXPECT_NE(a, b) << "nothing was rounded";
    for (int p = 0; p < a.positions; ++p, ++compared) {
      difference += std::abs(a.log_prob(p, 0) - b.log_prob(p, 0));
    }
  }
  EXPECT_LT(difference / compared, 0.1);
}

// A frontier with the tokens of its whole context.
Frontier WithTokens(Frontier frontier, const std::vector<TokenId>& tokens,
                    const std::string& salt = "") {
  frontier.new_tokens = {tokens.begin(), tokens.begin() + frontier.committed};
  frontier.cache_salt = salt;
  return frontier;
}

std::vector<TokenId> SomeTokens() {
  std::vector<TokenId> tokens(64);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<TokenId>(37 * i % 256);
  return tokens;
}

TEST_F(DrafterEngineTest, TheContextOfAnEqualPromptIsReused) {
  const std::vector<TokenId> tokens = SomeTokens();
  SyntheticFeatures features(3 * 32), cold_features(3 * 32);
  const auto engine = MakeEngine(features), cold = MakeEngine(cold_features);
  ASSERT_TRUE(engine->Expand({WithTokens(MakeFrontier(40, 3), tokens)}).ok());
  EXPECT_EQ(features.rows(), 40);
  Frontier second = WithTokens(MakeFrontier(50, 3), tokens);
  second.sequence.session = 2;
  const auto drafts = engine->Expand({second});
  EXPECT_EQ(features.rows(), 40 + 50 - 32) << "two full pages were reused";
  const auto expected = cold->Expand({second});
  ASSERT_TRUE(drafts.ok() && expected.ok()) << drafts.status() << expected.status();
  EXPECT_FALSE(drafts->at(0).marginals.at(0).empty());
  EXPECT_EQ(*drafts, *expected);
}

TEST_F(DrafterEngineTest, TheContextIsReusedAfterTheFirstSequenceHasEnded) {
  const std::vector<TokenId> tokens = SomeTokens();
  SyntheticFeatures features(3 * 32);
  const auto engine = MakeEngine(features);
  const Frontier first = WithTokens(MakeFrontier(40, 3), tokens);
  ASSERT_TRUE(engine->Expand({first}).ok());
  engine->Close(first.sequence);
  ASSERT_TRUE(engine->Expand({first}).ok());
  EXPECT_EQ(features.rows(), 40 + 8);
}

TEST_F(DrafterEngineTest, ContextIsNotReusedUnderAnotherSaltOrWithoutTokens) {
  const std::vector<TokenId> tokens = SomeTokens();
  SyntheticFeatures features(3 * 32);
  const auto engine = MakeEngine(features);
  int session = 0, expected_rows = 0;
  for (Frontier frontier : {WithTokens(MakeFrontier(40, 3), tokens, "alice"),
                            WithTokens(MakeFrontier(40, 3), tokens, "bob"), MakeFrontier(40, 3)}) {
    frontier.sequence.session = ++session;
    ASSERT_TRUE(engine->Expand({frontier}).ok());
    EXPECT_EQ(features.rows(), expected_rows += 40);
  }
}

TEST_F(DrafterEngineTest, AWronglyPredictedRootIsDraftedAgain) {
  SyntheticFeatures request_features(3 * 32), ahead_features(3 * 32);
  const auto request_engine = MakeEngine(request_features);
  const auto ahead_engine = MakeEngine(ahead_features);
  ASSERT_TRUE(request_engine->Expand({MakeFrontier(9, 3)}).ok() &&
              ahead_engine->Expand({MakeFrontier(9, 3)}).ok());
  ahead_engine->FeaturesArrived(kSequence, 11, 40);
  const auto actual = ahead_engine->Expand({MakeFrontier(11, 41)});
  const auto expected = request_engine->Expand({MakeFrontier(11, 41)});
  ASSERT_TRUE(actual.ok() && expected.ok()) << actual.status() << expected.status();
  EXPECT_EQ(actual->at(0).marginals.at(0).tokens, expected->at(0).marginals.at(0).tokens);
  EXPECT_EQ(actual->at(0).marginals.at(0).log_probs, expected->at(0).marginals.at(0).log_probs);
}

TEST_F(DrafterEngineTest, AnArrivalWithARootOutsideTheVocabularyIsDropped) {
  SyntheticFeatures features(3 * 32);
  const auto engine = MakeEngine(features);
  ASSERT_TRUE(engine->Expand({MakeFrontier(9, 3)}).ok());
  engine->FeaturesArrived(kSequence, 11, 1 << 20);
  const auto drafts = engine->Expand({MakeFrontier(11, 40)});
  ASSERT_TRUE(drafts.ok()) << drafts.status();
  EXPECT_FALSE(drafts->at(0).marginals.at(0).empty());
}

}  // namespace
}  // namespace bastion::drafter
