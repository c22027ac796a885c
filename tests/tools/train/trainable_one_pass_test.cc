// The training forwards of drafters that predict all tokens in one pass over features, ParallelSpec
// and Medusa, equal the serving engine's on the files that the trainer writes.
#include "kernels/torch/torch.h"
// After torch.h.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "tests/tools/train/served_drafter_fixture.h"
#include "tools/train/models/medusa.h"
#include "tools/train/models/parallelspec.h"

namespace bastion::train {
namespace {

constexpr int kDraftText = 36;  // Tokens.

struct OnePassCase {
  std::string name;
  std::string golden;
  DrafterShape shape;
  int draft_vocabulary = 0;  // 0: all tokens
};

void PrintTo(const OnePassCase& test, std::ostream* out) { *out << test.name; }

class OnePassTest : public ServedDrafterFixture, public ::testing::WithParamInterface<OnePassCase> {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(LoadTarget(GetParam().golden, /*seed=*/11));
    shape_ = GetParam().shape;
    ChooseDraftTokens(GetParam().draft_vocabulary, shape_);
    MakeTexts(kDraftText, 31);
  }
  void MakeInputs(const TrainableDrafter& drafter) {
    MakeFeatures(drafter);
    batch_.head_input = target_.HeadInput(batch_.features.narrow(2, 0, hidden()));
  }
  // No part is without effect, and every weight is one of bf16.
  static void Randomize(const TrainableDrafter& drafter) {
    for (const Parameter& parameter : drafter.parameters().all()) {
      const at::Tensor values = parameter.value.detach() + 0.1 * at::randn(parameter.value.sizes());
      drafter.parameters().Set(parameter.name, values.to(at::kBFloat16).to(at::kFloat));
    }
  }
  void ServeRootDrafter(const TrainableDrafter& drafter) {
    ASSERT_NO_FATAL_FAILURE(Serve(drafter));
    EXPECT_EQ(engine_->feature_layers(), drafter.feature_layers());
    EXPECT_FALSE(engine_->info().expands_nodes);
  }

  // Compares what the engine drafts after `anchor` with logits [P, D].
  void ExpectServed(int64_t anchor, const at::Tensor& logits) {
    SCOPED_TRACE(anchor);
    const at::Tensor log_q = at::log_softmax(logits, -1);
    Marginals served;
    ASSERT_NO_FATAL_FAILURE(Draft(FrontierAt(anchor), served));
    ASSERT_EQ(served.positions, log_q.size(0));
    for (int p = 0; p < served.positions; ++p) {
      ASSERT_NO_FATAL_FAILURE(ExpectPosition(served, p, log_q[p]));
    }
  }

  void ExpectLossFalls(TrainableDrafter& drafter) {
    std::vector<StepLoss> losses;
    for (int step = 1; step <= 40; ++step) {
      Draws draws(1, step);
      losses.push_back(drafter.AddGradients(batch_, draws));
      const at::NoGradGuard no_gradients;
      for (const Parameter& parameter : drafter.parameters().all()) {
        at::Tensor value = parameter.value;
        ASSERT_TRUE(value.grad().defined()) << parameter.name;
        value.sub_(value.grad().sign(), 0.005);
        value.mutable_grad().reset();
      }
    }
    EXPECT_GT(losses.back().labels, 0);
    EXPECT_LT(losses.back().loss, 0.9 * losses.front().loss);
  }

  DrafterShape shape_;
};

class TrainableParallelSpecTest : public OnePassTest {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(OnePassTest::SetUp());
    auto drafter = TrainableParallelSpec::Create(target_, shape_, /*seed=*/1);
    ASSERT_TRUE(drafter.ok()) << drafter.status();
    drafter_ = *std::move(drafter);
    MakeInputs(*drafter_);
  }
  // [A, P, C]
  [[nodiscard]] at::Tensor Rows(const std::vector<int64_t>& anchors) const {
    return drafter_->Forward(batch_.features.narrow(0, 0, 1), batch_.tokens.narrow(0, 0, 1),
                             at::tensor(anchors).unsqueeze(0))[0];
  }
  std::unique_ptr<TrainableParallelSpec> drafter_;
};

TEST_P(TrainableParallelSpecTest, TheForwardOfTrainingEqualsTheEngines) {
  const at::NoGradGuard no_gradients;
  Randomize(*drafter_);
  ASSERT_NO_FATAL_FAILURE(ServeRootDrafter(*drafter_));
  const std::vector<int64_t> anchors = {1, 2, 17, 17, kDraftText - 1};
  const at::Tensor logits = at::linear(Rows(anchors), drafter_->head());
  for (size_t a = 0; a < anchors.size(); ++a) {
    ExpectServed(anchors[a], logits[static_cast<int64_t>(a)]);
  }
}

TEST_P(TrainableParallelSpecTest, MaskRowsDoNotSeeOtherAnchorsOrTheFuture) {
  const at::NoGradGuard no_gradients;
  Randomize(*drafter_);
  const at::Tensor alone = Rows({9}), among = Rows({4, 9, 20}).narrow(0, 1, 1);
  EXPECT_LT((alone - among).abs().max().item<float>(), 1e-4f);
}

TEST_P(TrainableParallelSpecTest, TheLossFalls) { ExpectLossFalls(*drafter_); }

INSTANTIATE_TEST_SUITE_P(
    Shapes, TrainableParallelSpecTest,
    ::testing::Values(
        OnePassCase{"all_tokens", "eagle3_specforge", {.layers = 1, .mask_token = 3}},
        OnePassCase{"some_tokens",
                    "eagle3_specforge",
                    {.layers = 3, .feature_layers = {2, 4, 5}, .mask_token = 3, .positions = 3},
                    50},
        OnePassCase{"grouped",
                    "gqa4_tied_draft5",
                    {.layers = 2, .feature_layers = {1, 2}, .mask_token = 3, .positions = 5},
                    40}),
    [](const auto& info) { return info.param.name; });

class TrainableMedusaTest : public OnePassTest {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(OnePassTest::SetUp());
    auto drafter = TrainableMedusa::Create(target_, shape_, /*seed=*/1);
    ASSERT_TRUE(drafter.ok()) << drafter.status();
    drafter_ = *std::move(drafter);
    heads_ = shape_.positions > 0 ? shape_.positions : 4;
    MakeInputs(*drafter_);
  }
  // [P, V] The logits after `anchor`.
  [[nodiscard]] at::Tensor Logits(int64_t anchor) const {
    std::vector<at::Tensor> logits;
    const at::Tensor state = batch_.head_input[0].narrow(0, anchor - 1, 1);
    for (int head = 0; head < heads_; ++head) {
      logits.push_back(at::linear(drafter_->Forward(head, state), drafter_->matrix(head)));
    }
    return at::cat(logits);
  }
  std::unique_ptr<TrainableMedusa> drafter_;
  int heads_ = 0;
};

TEST_P(TrainableMedusaTest, TheForwardOfTrainingEqualsTheEngines) {
  const at::NoGradGuard no_gradients;
  Randomize(*drafter_);
  ASSERT_NO_FATAL_FAILURE(ServeRootDrafter(*drafter_));
  for (const int64_t anchor : {1, 2, 17, kDraftText - 1}) ExpectServed(anchor, Logits(anchor));
}

TEST_P(TrainableMedusaTest, EveryHeadBeginsAsTheTargets) {
  const at::NoGradGuard no_gradients;
  const at::Tensor expected = at::linear(batch_.head_input[0][4], target_.head);
  const at::Tensor logits = Logits(5);
  for (int head = 0; head < heads_; ++head) {
    EXPECT_LT((logits[head] - expected).abs().max().item<float>(), 1e-4f);
  }
}

TEST_P(TrainableMedusaTest, TheLossFalls) { ExpectLossFalls(*drafter_); }

INSTANTIATE_TEST_SUITE_P(Shapes, TrainableMedusaTest,
                         ::testing::Values(OnePassCase{"four_heads", "eagle3_specforge", {}},
                                           OnePassCase{"two_blocks",
                                                       "gqa2_untied_draft2",
                                                       {.layers = 2, .positions = 2}}),
                         [](const auto& info) { return info.param.name; });

TEST(OnePassShapeTest, WrongShapesAreRefusedByName) {
  const auto target = FrozenTarget::Load(testing::GoldenFolder("eagle3_specforge") + "/target");
  ASSERT_TRUE(target.ok());
  const auto error = [](const auto& drafter) {
    EXPECT_EQ(drafter.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(drafter.status().message());
  };
  const auto parallel = [&](const DrafterShape& shape) {
    return error(TrainableParallelSpec::Create(*target, shape, 1));
  };
  EXPECT_TRUE(absl::StrContains(parallel({}), "--mask_token is -1"));
  EXPECT_TRUE(absl::StrContains(parallel({.mask_token = 3, .positions = 1}), "--positions is 1"));
  EXPECT_TRUE(
      absl::StrContains(parallel({.feature_layers = {0}, .mask_token = 3}), "names layer 0"));
  EXPECT_TRUE(absl::StrContains(error(TrainableMedusa::Create(*target, {.positions = 65}, 1)),
                                "--positions is 65"));
}

}  // namespace
}  // namespace bastion::train
