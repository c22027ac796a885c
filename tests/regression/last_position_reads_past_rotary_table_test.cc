// The bug: a SpecBlock drafter took a root at the last position. The later rows of the root's block
// then had positions past the end of the rotary table.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "drafter_service/draft/specblock.h"
#include "drafter_service/engine/drafter_engine.h"
#include "engine/program/local_device.h"
#include "tests/support/golden_file.h"

namespace bastion::drafter {
namespace {

class ZeroFeatures final : public FeatureSource {
 public:
  absl::StatusOr<Features> Read(const FeatureRange& range, absl::Duration) override {
    Features features;
    features.width = 3 * 32;
    features.bytes.assign(range.count * features.row_bytes(), '\0');
    return features;
  }
};

class LastPositionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string pair = testing::GoldenFolder("specblock_shift");
    DrafterOptions options;
    options.drafter_folder = pair + "/drafter";
    options.target_folder = pair + "/target";
    options.engine = {nn::FormatsFor(WeightFormat::kF32), local_.device, /*kv_tokens=*/4096};
    auto engine = DrafterEngine::Create(options, &features_);
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
  }

  // The draft after `committed` tokens.
  Marginals DraftAfter(Position committed) {
    Frontier frontier;
    frontier.sequence = {static_cast<uint64_t>(committed), 0};
    frontier.committed = committed;
    frontier.new_tokens.assign(committed, 5);
    frontier.root = 3;
    frontier.candidates = 4;
    const auto drafts = engine_->Expand({frontier});
    EXPECT_TRUE(drafts.ok()) << drafts.status();
    return drafts->at(0).marginals.at(0);
  }

  nn::LocalDevice local_ = *nn::OpenLocalDevice(2);
  ZeroFeatures features_;
  std::unique_ptr<DrafterEngine> engine_;
};

TEST_F(LastPositionTest, EveryRowOfTheLastBlockHasAPosition) {
  const DrafterInfo& info = engine_->info();
  ASSERT_GT(info.positions, 1);
  EXPECT_EQ(DraftAfter(info.max_context).positions, info.positions);
  for (int beyond = 1; beyond < info.positions; ++beyond) {
    EXPECT_TRUE(DraftAfter(info.max_context + beyond).empty()) << beyond;
  }
}

TEST_F(LastPositionTest, TheTableCoversTheLastBlockAndAllPositionsOfTheTarget) {
  const std::string pair = testing::GoldenFolder("specblock_shift");
  nn::EngineOptions options = {nn::FormatsFor(WeightFormat::kF32), local_.device, 1024};
  const auto model = SpecBlockModel::Load(pair + "/drafter", pair + "/target", options);
  const auto target = hub::ReadModelConfig(pair + "/target");
  ASSERT_TRUE(model.ok() && target.ok()) << model.status() << target.status();
  const DrafterInfo& info = engine_->info();
  EXPECT_LE(info.max_context + info.positions, (*model)->config().max_positions);
  EXPECT_GE(info.max_context, target->max_positions);
}

}  // namespace
}  // namespace bastion::drafter
