// The training forward of an autoregressive drafter equals a target's of the same shape.
#include "kernels/torch/torch.h"
// After torch.h.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "tests/support/golden_file.h"
#include "tests/support/temp_folder.h"
#include "tools/train/models/autoregressive.h"
#include "tools/train/models/drafter_files.h"

namespace bastion::train {
namespace {

class TrainableAutoregressiveTest : public ::testing::Test {
 protected:
  void SetUp() override {
    at::set_num_threads(1);
    auto target = FrozenTarget::Load(testing::GoldenFolder("gqa1_tied_draft1") + "/target");
    ASSERT_TRUE(target.ok()) << target.status();
    target_ = *std::move(target);
  }
  FrozenTarget target_;
};

TEST_F(TrainableAutoregressiveTest, TheEngineReadsWhatTheTrainerSaved) {
  const auto drafter =
      TrainableAutoregressive::Create(target_, {.layers = 2, .hidden = 64, .intermediate = 96}, 1);
  ASSERT_TRUE(drafter.ok()) << drafter.status();
  testing::TempFolder folder;
  ASSERT_TRUE(SaveDrafter(**drafter, folder.path()).ok());
  const auto read = hub::ReadTargetConfig(folder.path());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->dims.hidden, 64);
  EXPECT_EQ(read->dims.layers, 2);
  EXPECT_EQ(read->dims.intermediate, 96);
  EXPECT_EQ(read->dims.vocabulary, target_.config.dims.vocabulary);
  EXPECT_TRUE(read->tie_word_embeddings);
}

TEST_F(TrainableAutoregressiveTest, TheGradientsAreThoseOfAutograd) {
  const auto created = TrainableAutoregressive::Create(target_, {.hidden = 32}, 1);
  ASSERT_TRUE(created.ok()) << created.status();
  TrainableAutoregressive& drafter = **created;
  TextBatch batch;
  batch.tokens = at::arange(14, at::kLong).view({2, 7}) + 20;
  batch.prompts = at::ones({2}, at::kLong);
  batch.lengths = at::tensor({7, 5}).to(at::kLong);
  batch.head_input = at::ones({2, 7, target_.config.dims.hidden}, at::kFloat) * 0.1;
  Draws draws(1, 1);
  const StepLoss loss = drafter.AddGradients(batch, draws);
  EXPECT_EQ(loss.labels, 6 + 4);
  std::vector<at::Tensor> gradients;
  for (const Parameter& parameter : drafter.parameters().all()) {
    gradients.push_back(parameter.value.grad().clone());
    at::Tensor(parameter.value).mutable_grad().reset();
  }
  const at::Tensor log_q =
      at::log_softmax(at::linear(drafter.Forward(batch.tokens), drafter.embedding()), -1);
  const at::Tensor p = at::softmax(at::linear(batch.head_input, target_.head), -1);
  at::Tensor sum = at::zeros({}, at::kFloat);
  for (const auto& [text, length] : {std::pair(0, 7), std::pair(1, 5)}) {
    for (int row = 0; row + 1 < length; ++row) {
      const at::Tensor q = log_q[text][row];
      const auto label = batch.tokens[text][row + 1].item<int64_t>();
      sum = sum - 0.5 * (p[text][row] * q).sum() - 0.5 * q[label];
    }
  }
  (sum / 10).backward();
  EXPECT_NEAR(loss.loss, (sum / 10).item<double>(), 1e-4);
  for (size_t i = 0; i < gradients.size(); ++i) {
    const Parameter& parameter = drafter.parameters().all()[i];
    EXPECT_TRUE(at::allclose(gradients[i], parameter.value.grad(), 1e-3, 1e-6)) << parameter.name;
  }
}

TEST_F(TrainableAutoregressiveTest, AWidthThatHeadsDoNotFillIsRefused) {
  const auto drafter = TrainableAutoregressive::Create(target_, {.hidden = 50}, 1);
  EXPECT_TRUE(absl::IsInvalidArgument(drafter.status()));
  EXPECT_TRUE(absl::StrContains(drafter.status().message(), "--hidden")) << drafter.status();
}

}  // namespace
}  // namespace bastion::train
