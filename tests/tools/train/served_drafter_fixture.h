// A fixture for drafters that read features and tokens. It compares what training computes with
// what the serving engine drafts, on the files that the trainer writes. Header-only.
// Thread-compatible.
#ifndef BASTION_TESTS_TOOLS_TRAIN_SERVED_DRAFTER_FIXTURE_H_
#define BASTION_TESTS_TOOLS_TRAIN_SERVED_DRAFTER_FIXTURE_H_

#include "kernels/torch/torch.h"
// After torch.h.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/stages/features.h"
#include "drafter_service/engine/drafter_engine.h"
#include "engine/program/local_device.h"
#include "tests/support/golden_file.h"
#include "tests/support/temp_folder.h"
#include "tools/train/models/drafter_files.h"
#include "tools/train/models/drafter_shape.h"
#include "tools/train/models/frozen_target.h"
#include "tools/train/models/trainable_drafter.h"

namespace bastion::train {

// The features of one text.
class TextFeatures final : public FeatureSource {
 public:
  explicit TextFeatures(at::Tensor rows) : rows_(std::move(rows)) {}
  absl::StatusOr<Features> Read(const FeatureRange& range, absl::Duration) override {
    const at::Tensor part = rows_.narrow(0, range.first, range.count).contiguous();
    Features features;
    features.width = static_cast<int>(part.size(1));
    features.bytes.assign(static_cast<const char*>(part.const_data_ptr()), part.nbytes());
    return features;
  }

 private:
  const at::Tensor rows_;  // [T, F]
};

class ServedDrafterFixture : public ::testing::Test {
 protected:
  // Loads the target of a golden pair, and seeds the random numbers of libtorch.
  void LoadTarget(const std::string& golden, uint64_t seed) {
    at::set_num_threads(1);
    at::manual_seed(seed);
    target_folder_ = testing::GoldenFolder(golden) + "/target";
    auto target = FrozenTarget::Load(target_folder_);
    ASSERT_TRUE(target.ok()) << target.status();
    target_ = *std::move(target);
  }
  // Lets the drafter predict every third token, `count` of them. 0: all tokens.
  void ChooseDraftTokens(int count, DrafterShape& shape) {
    for (int i = 0; i < count; ++i) shape.draft_tokens.push_back(3 * i + 1);
    columns_ = shape.draft_tokens;
    for (TokenId token = 0; shape.draft_tokens.empty() && token < vocabulary(); ++token) {
      columns_.push_back(token);
    }
  }
  // Two texts of random tokens. The first has `tokens`, the second has `second`.
  void MakeTexts(int tokens, int second) {
    batch_.tokens = at::randint(vocabulary(), {2, tokens}, at::kLong);
    batch_.prompts = at::tensor({3, 9}).to(at::kLong);
    batch_.lengths = at::tensor({tokens, second}).to(at::kLong);
  }
  // A random row of features, [F], for each token.
  void MakeFeatures(const TrainableDrafter& drafter) {
    const auto width = static_cast<int64_t>(drafter.feature_layers().size()) * hidden();
    batch_.features = at::randn({2, batch_.tokens.size(1), width});
  }
  [[nodiscard]] int vocabulary() const { return target_.config.dims.vocabulary; }
  [[nodiscard]] int64_t hidden() const { return target_.config.dims.hidden; }

  // Saves the drafter, and loads it into an engine that reads the features of the first text.
  void Serve(const TrainableDrafter& drafter) {
    ASSERT_TRUE(SaveDrafter(drafter, folder_.path()).ok());
    auto device = nn::OpenLocalDevice(1);
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
    features_ = std::make_unique<TextFeatures>(batch_.features[0]);
    drafter::DrafterOptions options;
    options.drafter_folder = folder_.path();
    options.target_folder = target_folder_;
    options.engine = {nn::FormatsFor(WeightFormat::kF32), device_.device, /*kv_tokens=*/1024};
    auto engine = drafter::DrafterEngine::Create(options, features_.get());
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
  }

  // The frontier whose root is token `anchor` of the first text.
  [[nodiscard]] Frontier FrontierAt(int64_t anchor) const {
    const at::Tensor tokens = batch_.tokens[0].to(at::kInt).contiguous();
    const TokenId* const ids = tokens.const_data_ptr<TokenId>();
    Frontier frontier;
    frontier.sequence = {static_cast<uint64_t>(anchor), 0};
    frontier.committed = static_cast<Position>(anchor);
    frontier.root = ids[anchor];
    frontier.new_tokens.assign(ids, ids + anchor);
    frontier.candidates = static_cast<int>(columns_.size());
    return frontier;
  }
  // What the engine drafts for the only path of `frontier`: every token of the draft vocabulary.
  void Draft(const Frontier& frontier, Marginals& served) const {
    const auto drafts = engine_->Expand({frontier});
    ASSERT_TRUE(drafts.ok()) << drafts.status();
    ASSERT_TRUE(drafts->at(0).status.ok()) << drafts->at(0).status;
    served = drafts->at(0).marginals.at(0);
    ASSERT_EQ(served.candidates, static_cast<int>(columns_.size()));
  }
  // Compares a position with the log-probabilities [D] of training.
  void ExpectPosition(const Marginals& served, int position, const at::Tensor& log_q) const {
    for (int rank = 0; rank < served.candidates; ++rank) {
      const TokenId token = served.token(position, rank);
      const auto at = std::lower_bound(columns_.begin(), columns_.end(), token);
      ASSERT_TRUE(at != columns_.end() && *at == token);
      ASSERT_NEAR(log_q[at - columns_.begin()].item<float>(), served.log_prob(position, rank), 1e-4)
          << "position " << position << ", token " << token;
    }
  }

  testing::TempFolder folder_;
  std::string target_folder_;
  FrozenTarget target_;
  std::vector<TokenId> columns_;  // The token of each column of the logits.
  TextBatch batch_;
  nn::LocalDevice device_;
  std::unique_ptr<TextFeatures> features_;
  std::unique_ptr<drafter::DrafterEngine> engine_;
};

}  // namespace bastion::train

#endif  // BASTION_TESTS_TOOLS_TRAIN_SERVED_DRAFTER_FIXTURE_H_
