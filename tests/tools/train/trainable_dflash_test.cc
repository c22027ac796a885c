// The training forward of DFlash equals the serving engine's, on tiny random checkpoints.
#include "kernels/torch/torch.h"
// After torch.h.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "common/hub/checkpoint.h"
#include "tests/support/golden_file.h"
#include "tests/support/temp_folder.h"
#include "tools/train/models/dflash.h"
#include "tools/train/models/drafter_files.h"

namespace bastion::train {
namespace {

constexpr float kTolerance = 1e-4f;  // As between the engine and its goldens.

// A golden case, whose drafter is loaded into the trainer.
struct Trained {
  explicit Trained(const std::string& name)
      : folder(testing::GoldenFolder(name)), golden(folder + "/golden.safetensors") {
    at::set_num_threads(1);
    auto loaded = FrozenTarget::Load(folder + "/target");
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    target = std::make_unique<FrozenTarget>(*std::move(loaded));
    auto read = hub::ReadModelConfig(folder + "/drafter");
    EXPECT_TRUE(read.ok()) << read.status();
    config = *std::move(read);
    const DrafterShape shape = {.layers = config.dims.layers,
                                .intermediate = config.dims.intermediate,
                                .block = config.drafter.dflash.block_size,
                                .feature_layers = config.drafter.dflash.target_layer_ids,
                                .mask_token = config.drafter.dflash.mask_token};
    auto created = TrainableDflash::Create(*target, shape, /*seed=*/1);
    EXPECT_TRUE(created.ok()) << created.status();
    drafter = *std::move(created);
  }

  void LoadDrafter() const {
    const auto checkpoint = hub::Checkpoint::Open(folder + "/drafter");
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    for (const Parameter& parameter : drafter->parameters().all()) {
      const auto values = ReadTensor(**checkpoint, parameter.name, parameter.value.sizes().vec());
      ASSERT_TRUE(values.ok()) << values.status();
      drafter->parameters().Set(parameter.name, *values);
    }
  }

  // [1, tokens, F]
  [[nodiscard]] at::Tensor Features(int64_t tokens) const {
    const std::vector<float> all = golden.Floats("features");
    const auto width =
        static_cast<int64_t>(config.drafter.dflash.target_layer_ids.size()) * config.dims.hidden;
    return at::from_blob(const_cast<float*>(all.data()), {1, tokens, width}).clone();
  }

  std::string folder;
  testing::GoldenFile golden;
  std::unique_ptr<FrozenTarget> target;
  hub::ModelConfig config;
  std::unique_ptr<TrainableDflash> drafter;
};

// The trainer makes drafters without windows. trainable_dflash2_test.cc tests version 2.
std::vector<std::string> PairsWithoutWindows() {
  std::vector<std::string> names = testing::GoldenPairs();
  std::erase_if(names, [](const std::string& name) {
    return absl::StrContains(name, "window") || absl::StartsWith(name, "dflash2");
  });
  return names;
}

class TrainableDflashTest : public ::testing::TestWithParam<std::string> {
 protected:
  Trained trained_{GetParam()};
};

TEST_P(TrainableDflashTest, TheForwardOfTrainingEqualsTheGoldenLogits) {
  trained_.LoadDrafter();
  int64_t context = 0;
  const std::vector<TokenId> added = trained_.golden.Integers("draft_context");
  ASSERT_FALSE(added.empty());
  for (size_t round = 0; round < added.size(); ++round) {
    context += added[round];
    const std::string number = std::to_string(round);
    const TokenId root = trained_.golden.Integers("bonus_" + number)[0];
    const at::Tensor rows =
        trained_.drafter->Forward(trained_.Features(context), at::full({1, 1}, root, at::kLong),
                                  at::full({1, 1}, context, at::kLong));
    const at::Tensor logits = at::linear(rows, trained_.target->head).contiguous();
    const std::vector<float> expected = trained_.golden.Floats("marginal_logits_" + number);
    ASSERT_EQ(static_cast<size_t>(logits.numel()), expected.size());
    const float* const actual = logits.const_data_ptr<float>();
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(actual[i], expected[i], kTolerance) << "round " << round << " at " << i;
    }
  }
}

TEST_P(TrainableDflashTest, ABlockDoesNotSeeTheOtherBlocksOrItsFuture) {
  trained_.LoadDrafter();
  const at::Tensor features = trained_.Features(6);
  const auto forward = [&](std::vector<int64_t> anchors, const at::Tensor& seen) {
    const at::Tensor places = at::tensor(anchors).unsqueeze(0);
    return trained_.drafter->Forward(seen, at::full_like(places, 2), places);
  };
  const at::Tensor alone = forward({3}, features.narrow(1, 0, 3));
  const at::Tensor among = forward({2, 3, 6}, features).narrow(1, 1, 1);
  EXPECT_LT((alone - among).abs().max().item<float>(), kTolerance);
}

TEST_P(TrainableDflashTest, TheEngineReadsWhatTheTrainerSaved) {
  testing::TempFolder folder;
  ASSERT_TRUE(SaveDrafter(*trained_.drafter, folder.path()).ok());
  const auto read = hub::ReadModelConfig(folder.path());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->kind, hub::ModelKind::kDflash);
  EXPECT_EQ(read->dims.layers, trained_.config.dims.layers);
  EXPECT_EQ(read->drafter.dflash.block_size, trained_.config.drafter.dflash.block_size);
  EXPECT_EQ(read->drafter.dflash.target_layer_ids, trained_.config.drafter.dflash.target_layer_ids);
  EXPECT_EQ(read->drafter.dflash.mask_token, trained_.config.drafter.dflash.mask_token);
  const auto checkpoint = hub::Checkpoint::Open(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const auto golden = hub::Checkpoint::Open(trained_.folder + "/drafter");
  ASSERT_TRUE(golden.ok()) << golden.status();
  EXPECT_EQ((*checkpoint)->TensorNames(), (*golden)->TensorNames());
}

INSTANTIATE_TEST_SUITE_P(Goldens, TrainableDflashTest, ::testing::ValuesIn(PairsWithoutWindows()),
                         [](const auto& info) { return info.param; });

TEST(TrainableDflashShapeTest, AMaskTokenOutsideTheVocabularyIsRefusedByName) {
  const auto target = FrozenTarget::Load(testing::GoldenFolder("gqa1_tied_draft1") + "/target");
  ASSERT_TRUE(target.ok()) << target.status();
  const auto drafter = TrainableDflash::Create(*target, {}, 1);
  ASSERT_EQ(drafter.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(drafter.status().message(), "--mask_token")) << drafter.status();
}

}  // namespace
}  // namespace bastion::train
