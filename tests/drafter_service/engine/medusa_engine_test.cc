// Medusa heads read only the features of the last committed token. They have no context, so a
// sequence never lacks any.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "drafter_service/engine/drafter_engine.h"
#include "drafter_service/engine/drafter_kinds.h"
#include "engine/program/local_device.h"
#include "tests/support/golden_file.h"

namespace bastion::drafter {
namespace {

constexpr int kHidden = 32;

// Every row is a function of its position and its sequence. Like a verifier, gives each row once.
class LastRows final : public FeatureSource {
 public:
  absl::StatusOr<Features> Read(const FeatureRange& range, absl::Duration) override {
    if (!error.ok()) return error;
    ranges.push_back(range);
    Features features;
    features.width = kHidden;
    for (int i = 0; i < range.count * kHidden; ++i) {
      const auto at = static_cast<float>(range.first * kHidden + i);
      const float value = std::sin(at + static_cast<float>(range.sequence.session));
      features.bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
    return features;
  }

  std::vector<FeatureRange> ranges;
  absl::Status error;
};

class MedusaEngineTest : public ::testing::Test {
 protected:
  void SetUp() override { engine_ = MakeEngine(&features_); }

  std::unique_ptr<DrafterEngine> MakeEngine(FeatureSource* features) {
    const std::string pair = testing::GoldenFolder("medusa_shared_blocks");
    DrafterOptions options;
    options.drafter_folder = pair + "/drafter";
    options.target_folder = pair + "/target";
    options.engine = {nn::FormatsFor(WeightFormat::kF32), local_.device, /*kv_tokens=*/64};
    options.max_sequences = 4;
    options.defer_catch_up = true;
    auto engine = DrafterEngine::Create(options, features);
    EXPECT_TRUE(engine.ok()) << engine.status();
    return *std::move(engine);
  }
  static Frontier FrontierOf(uint64_t session, Position committed) {
    Frontier frontier;
    frontier.sequence = {session, 0};
    frontier.committed = committed;
    frontier.root = 3;
    frontier.candidates = 6;
    return frontier;
  }
  static std::vector<Marginals> Expand(DrafterEngine& engine,
                                       const std::vector<Frontier>& frontiers) {
    const auto drafts = engine.Expand(frontiers);
    EXPECT_TRUE(drafts.ok()) << drafts.status();
    std::vector<Marginals> marginals;
    for (const Draft& draft : *drafts) marginals.push_back(draft.marginals.at(0));
    return marginals;
  }

  nn::LocalDevice local_ = *nn::OpenLocalDevice(2);
  LastRows features_;
  std::unique_ptr<DrafterEngine> engine_;
};

TEST_F(MedusaEngineTest, ALongPromptIsDraftedAtOnceFromItsLastToken) {
  EXPECT_FALSE(engine_->info().wants_tokens);
  EXPECT_EQ(engine_->info().positions, 3) << "the tensors count, not the config";
  EXPECT_FALSE(Expand(*engine_, {FrontierOf(1, 200)})[0].empty());
  EXPECT_FALSE(engine_->has_piece());
  EXPECT_EQ(engine_->last_trace().context_tokens, 0);
  ASSERT_EQ(features_.ranges.size(), 1u);
  EXPECT_EQ(features_.ranges[0].first, 199);
  EXPECT_EQ(features_.ranges[0].count, 1);
}

TEST_F(MedusaEngineTest, SequencesTogetherGetTheDraftsThatTheyGetAlone) {
  const std::vector<Frontier> all = {FrontierOf(1, 9), FrontierOf(2, 31), FrontierOf(3, 4)};
  const std::vector<Marginals> together = Expand(*engine_, all);
  LastRows others;
  const auto alone = MakeEngine(&others);
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(Expand(*alone, {all[i]})[0], together[i]) << "sequence " << i;
  }
  EXPECT_NE(together[0], together[1]);
}

TEST_F(MedusaEngineTest, TheSameRootIsDraftedAgainWithoutReading) {
  const Marginals first = Expand(*engine_, {FrontierOf(1, 20)})[0];
  EXPECT_EQ(Expand(*engine_, {FrontierOf(1, 20)})[0], first);
  EXPECT_EQ(features_.ranges.size(), 1u);
  EXPECT_NE(Expand(*engine_, {FrontierOf(1, 23)})[0], first);
}

TEST_F(MedusaEngineTest, AForgottenSequenceIsReadAgain) {
  const Marginals first = Expand(*engine_, {FrontierOf(1, 20)})[0];
  engine_->Close({1, 0});
  EXPECT_EQ(engine_->live_sequences(), 0);
  EXPECT_EQ(Expand(*engine_, {FrontierOf(1, 20)})[0], first);
}

TEST_F(MedusaEngineTest, MissingFeaturesAreReportedAndReadLater) {
  features_.error = absl::UnavailableError("no stream");
  const auto drafts = engine_->Expand({FrontierOf(1, 20)});
  ASSERT_TRUE(drafts.ok()) << drafts.status();
  EXPECT_EQ(drafts->at(0).status, features_.error);
  features_.error = absl::OkStatus();
  EXPECT_FALSE(Expand(*engine_, {FrontierOf(1, 20)})[0].empty());
}

TEST_F(MedusaEngineTest, ASequenceWithoutCommittedTokensGetsNoDraft) {
  EXPECT_TRUE(Expand(*engine_, {FrontierOf(1, 0)})[0].empty());
}

TEST_F(MedusaEngineTest, HeadsOfAnotherTargetAreRefused) {
  DrafterOptions options;
  options.drafter_folder = testing::GoldenFolder("medusa_shared_blocks") + "/drafter";
  options.target_folder = testing::GoldenFolder("gqa2_untied_draft2") + "/target";
  options.engine = {nn::FormatsFor(WeightFormat::kF32), local_.device, /*kv_tokens=*/64};
  const absl::Status status = DrafterEngine::Create(options, &features_).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(status.message(), ::testing::HasSubstr("trained for another target"));
}

// The doctor checks checkpoints without loading them.
TEST(OnePassKindsTest, ACheckFindsWhatTheEngineHas) {
  const nn::LocalDevice local = *nn::OpenLocalDevice(1);
  const nn::EngineOptions engine = {nn::FormatsFor(WeightFormat::kF32), local.device, 64};
  for (const char* name : {"medusa_shared_blocks", "medusa_target_head", "peagle_speculators"}) {
    LastRows features;
    DrafterOptions options;
    options.drafter_folder = testing::GoldenFolder(name) + "/drafter";
    options.target_folder = testing::GoldenFolder(name) + "/target";
    options.engine = engine;
    const auto loaded = DrafterEngine::Create(options, &features);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    const auto kind = FindDrafterKind(options.drafter_folder);
    ASSERT_TRUE(kind.ok()) << kind.status();
    const auto checked = (*kind)->check(options.drafter_folder, options.target_folder, engine);
    ASSERT_TRUE(checked.ok()) << checked.status();
    EXPECT_EQ(checked->logit_rows, (*loaded)->info().positions) << name;
    EXPECT_EQ(checked->cost.weight_bytes, (*loaded)->cost().weight_bytes) << name;
    EXPECT_EQ(checked->feature_width,
              static_cast<int>((*loaded)->feature_layers().size()) * checked->embedding.hidden);
  }
}

}  // namespace
}  // namespace bastion::drafter
