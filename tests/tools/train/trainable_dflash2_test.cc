// The training forward of DFlash 2 equals the serving engine's, on the files that the trainer
// writes; the selector learns which tokens follow each other.
#include "kernels/torch/torch.h"
// After torch.h.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "drafter_service/draft/dflash.h"
#include "engine/program/local_device.h"
#include "tests/support/golden_file.h"
#include "tests/support/temp_folder.h"
#include "tools/train/models/dflash.h"
#include "tools/train/models/drafter_files.h"

namespace bastion::train {
namespace {

constexpr float kNear = 1e-4f;
constexpr int kContextTokens = 11;
constexpr int kRootToken = 9;
constexpr int kBlockTokens = 6;

class TrainableDflash2Test : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    at::set_num_threads(1);
    at::manual_seed(3);
    target_folder_ = testing::GoldenFolder(GetParam()) + "/target";
    auto target = FrozenTarget::Load(target_folder_);
    ASSERT_TRUE(target.ok()) << target.status();
    target_ = *std::move(target);
    shape_ = {.layers = 2,
              .intermediate = 48,
              .block = kBlockTokens,
              .feature_layers = {1, 0},
              .mask_token = 2,
              .selector = {.rank = 12}};
    drafter_ = Create(DflashVersion::kSecond);
    context_ = at::randn({1, kContextTokens, 2 * hidden()});
    anchors_ = at::full({1, 1}, kContextTokens, at::kLong);
  }

  std::unique_ptr<TrainableDflash> Create(DflashVersion version) const {
    auto drafter = TrainableDflash::Create(target_, shape_, /*seed=*/1, version);
    EXPECT_TRUE(drafter.ok()) << drafter.status();
    return *std::move(drafter);
  }
  // Random values that bf16 has exactly, and that leave no part without effect.
  void Randomize() const {
    for (const Parameter& parameter : drafter_->parameters().all()) {
      const at::Tensor& values = parameter.value;
      const double deviation = values.dim() == 2 ? 1 / std::sqrt(values.size(1)) : 0.3;
      drafter_->parameters().Set(parameter.name,
                                 (values.detach() + deviation * at::randn(values.sizes()))
                                     .to(at::kBFloat16)
                                     .to(at::kFloat));
    }
  }
  [[nodiscard]] int64_t hidden() const { return target_.config.dims.hidden; }
  // [P, C] The normed outputs after the context and the root.
  [[nodiscard]] at::Tensor Rows(const TrainableDflash& drafter) const {
    return drafter.Forward(context_, at::full({1, 1}, kRootToken, at::kLong), anchors_)
        .flatten(0, 2);
  }

  // What the engine drafts with the files of the drafter.
  Marginals EngineDraft(const std::string& folder) {
    nn::EngineOptions options = {nn::FormatsFor(WeightFormat::kF32), local_.device,
                                 /*kv_tokens=*/1024};
    options.max_rows = 64, options.max_sequences = 1;
    auto model = drafter::DflashModel::Load(folder, target_folder_, options);
    EXPECT_TRUE(model.ok()) << model.status();
    if (!model.ok()) return {};
    nn::PageTable table;
    Features rows = {static_cast<int>(2 * hidden()), DType::kF32, {}};
    rows.bytes.assign(static_cast<const char*>(context_.const_data_ptr()), context_.nbytes());
    EXPECT_TRUE((*model)->AppendContext({{&table, 0, std::move(rows)}}).ok());
    auto drafts = (*model)->Draft({{&table, kContextTokens, kRootToken}}, /*candidates=*/16);
    EXPECT_TRUE(drafts.ok()) << drafts.status();
    Marginals marginals = drafts.ok() ? std::move(drafts->front()) : Marginals();
    (*model)->pages().Shrink(table, 0);
    return marginals;
  }

  std::string target_folder_;
  FrozenTarget target_;
  DrafterShape shape_;
  std::unique_ptr<TrainableDflash> drafter_;
  at::Tensor context_, anchors_;
  nn::LocalDevice local_ = *nn::OpenLocalDevice(1);
};

// The codebooks that the trainer writes, rounded as in the file.
std::pair<at::Tensor, at::Tensor> Codebooks(const TrainableDflash& drafter) {
  std::pair<at::Tensor, at::Tensor> books;
  for (const Parameter& parameter : drafter.Exported()) {
    const at::Tensor rounded = parameter.value.detach().to(at::kBFloat16).to(at::kFloat);
    if (parameter.name == "candidate_selector.predecessor_codebook") books.first = rounded;
    if (parameter.name == "candidate_selector.successor_codebook") books.second = rounded;
  }
  return books;
}

at::Tensor ParameterOf(const TrainableDflash& drafter, const std::string& name) {
  for (const Parameter& parameter : drafter.parameters().all()) {
    if (parameter.name == name) return parameter.value.detach();
  }
  ADD_FAILURE() << name;
  return {};
}

TEST_P(TrainableDflash2Test, TheForwardOfTrainingEqualsTheEngines) {
  const at::NoGradGuard no_gradients;
  Randomize();
  testing::TempFolder folder;
  ASSERT_TRUE(SaveDrafter(*drafter_, folder.path()).ok());
  const Marginals drafted = EngineDraft(folder.path());
  ASSERT_EQ(drafted.positions, kBlockTokens - 1);
  ASSERT_EQ(drafted.candidates, 16);
  const at::Tensor rows = Rows(*drafter_);
  const at::Tensor log_probs = at::log_softmax(at::linear(rows, target_.head), -1);
  const auto [before, after] = Codebooks(*drafter_);
  const at::Tensor states =
      at::linear(rows, ParameterOf(*drafter_, "candidate_selector.hidden_projection.weight"));
  double largest = 0;
  for (int p = 0; p < drafted.positions; ++p) {
    for (int j = 0; j < drafted.candidates; ++j) {
      const TokenId token = drafted.token(p, j);
      EXPECT_NEAR(drafted.log_prob(p, j), log_probs[p][token].item<float>(), kNear);
      for (int i = 0; i < (p == 0 ? 1 : drafted.candidates); ++i) {
        const TokenId previous = p == 0 ? kRootToken : drafted.token(p - 1, i);
        const auto score = (before[previous] * states[p] * after[token]).sum().item<double>();
        largest = std::max(largest, std::abs(score));
        ASSERT_NEAR(drafted.pair_row(p, i)[j], score, kNear * std::max(1.0, std::abs(score)));
      }
    }
  }
  EXPECT_GT(largest, 0.1) << "the test has no scores";
}

// Apart from the rounding of the codebooks.
TEST_P(TrainableDflash2Test, TheScoresOfTrainingAreThoseOfTheCodebooks) {
  const at::NoGradGuard no_gradients;
  Randomize();
  const at::Tensor rows = Rows(*drafter_);
  const at::Tensor previous = at::tensor({9, 3, 50, 4, 3}).to(at::kLong);
  const at::Tensor candidates = at::randint(60, {rows.size(0), 7}, at::kLong);
  const at::Tensor scores = drafter_->pairs()->Scores(rows, previous, candidates);
  const auto [before, after] = Codebooks(*drafter_);
  const at::Tensor states =
      at::linear(rows, ParameterOf(*drafter_, "candidate_selector.hidden_projection.weight"));
  const at::Tensor expected =
      ((before.index({previous}) * states).unsqueeze(1) * after.index({candidates})).sum(-1);
  EXPECT_LT((scores - expected).abs().max().item<float>(), 0.02 * scores.abs().max().item<float>());
}

TEST_P(TrainableDflash2Test, ANewDrafterDraftsWhatVersionOneDoes) {
  const at::NoGradGuard no_gradients;
  const auto first = Create(DflashVersion::kFirst);
  EXPECT_TRUE(at::equal(Rows(*drafter_), Rows(*first)));
  testing::TempFolder folder;
  ASSERT_TRUE(SaveDrafter(*drafter_, folder.path()).ok());
  const Marginals drafted = EngineDraft(folder.path());
  ASSERT_FALSE(drafted.pair_scores.empty());
  EXPECT_EQ(drafted.pair_scores, std::vector<float>(drafted.pair_scores.size(), 0));
}

TEST_P(TrainableDflash2Test, BlocksDoNotMixTheirRows) {
  const at::NoGradGuard no_gradients;
  Randomize();
  const auto forward = [&](const std::vector<int64_t>& anchors, int64_t context) {
    const at::Tensor places = at::tensor(anchors).unsqueeze(0);
    return drafter_->Forward(context_.narrow(1, 0, context), at::full_like(places, 2), places);
  };
  const at::Tensor alone = forward({3}, 3), among = forward({2, 3, 6}, 6).narrow(1, 1, 1);
  EXPECT_LT((alone - among).abs().max().item<float>(), kNear);
}

INSTANTIATE_TEST_SUITE_P(Targets, TrainableDflash2Test,
                         ::testing::Values("dflash2_window", "gqa1_tied_draft1",
                                           "gqa2_untied_draft2"),
                         [](const auto& info) { return info.param; });

// The token before says which token follows; the drafter's rows are all the same. The parameter is
// the weight of the loss for the drafter.
class PairLearningTest : public ::testing::TestWithParam<double> {
 protected:
  static constexpr int kRows = 64, kTokens = 8;

  void SetUp() override {
    at::set_num_threads(1);
    auto target = FrozenTarget::Load(testing::GoldenFolder("dflash2_window") + "/target");
    ASSERT_TRUE(target.ok()) << target.status();
    target_ = *std::move(target);
    rows_ = at::ones({kRows, target_.config.dims.hidden});
    before_ = at::arange(kRows, at::kLong).remainder(kTokens);
    labels_ = (before_ + 3).remainder(kTokens);
  }
  // The last token is never a candidate.
  PairLoss AddGradients(const PairTraining& pairs, const at::Tensor& rows) const {
    const at::Tensor tokens = at::arange(kTokens - 1, at::kLong).expand({kRows, kTokens - 1});
    return pairs.AddGradients({.rows = rows,
                               .teacher = at::zeros_like(rows),
                               .before = before_,
                               .labels = labels_,
                               .weights = at::full({kRows}, 1.0 / kRows),
                               .hard_share = 1},
                              {tokens, at::linear(rows, target_.head).gather(1, tokens)});
  }

  FrozenTarget target_;
  at::Tensor rows_, before_, labels_;
};

TEST_P(PairLearningTest, TheSelectorLearnsWhichTokensFollow) {
  constexpr int kSteps = 300;
  Parameters parameters(/*seed=*/1);
  const PairTraining pairs(target_, {.rank = 8, .weight = GetParam()}, parameters);
  const at::Tensor outside = labels_.eq(kTokens - 1);
  std::vector<double> losses;
  for (int step = 0; step < kSteps; ++step) {
    const PairLoss loss = AddGradients(pairs, rows_);
    losses.push_back(loss.losses.mean().item<double>());
    EXPECT_EQ(loss.losses.index({outside}).abs().sum().item<float>(), 0);
    EXPECT_FALSE(loss.hits.index({outside}).any().item<bool>());
    const at::NoGradGuard no_gradients;
    for (const Parameter& parameter : parameters.all()) {
      const at::Tensor value = parameter.value;
      value.sub_(value.grad(), 0.05);
      value.mutable_grad().reset();
    }
  }
  EXPECT_LT(losses.back(), losses.front() / 4);
}

TEST_P(PairLearningTest, TheGradientOfTheRowsLowersTheLoss) {
  Parameters parameters(/*seed=*/1);
  const PairTraining pairs(target_, {.rank = 8, .weight = GetParam()}, parameters);
  const PairLoss loss = AddGradients(pairs, rows_);
  ASSERT_EQ(loss.gradient.defined(), GetParam() > 0);
  if (GetParam() == 0) return;
  const PairLoss after = AddGradients(pairs, rows_ - loss.gradient);
  // Each row has its own gradient.
  const double expected = loss.gradient.square().sum().item<double>() / GetParam();
  const double fall = (loss.losses - after.losses).mean().item<double>();
  EXPECT_NEAR(fall, expected, 0.1 * expected);
}

INSTANTIATE_TEST_SUITE_P(Weights, PairLearningTest, ::testing::Values(0.0, 0.5),
                         [](const auto& info) { return info.param > 0 ? "backbone" : "alone"; });

}  // namespace
}  // namespace bastion::train
