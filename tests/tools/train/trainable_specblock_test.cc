// The training forward of SpecBlock equals the serving engine's, and a forward that caches nothing.
#include "kernels/torch/torch.h"
// After torch.h.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "tests/tools/train/plain_specblock.h"
#include "tests/tools/train/served_drafter_fixture.h"
#include "tools/train/models/anchors.h"
#include "tools/train/models/block_loss.h"
#include "tools/train/models/specblock.h"

namespace bastion::train {
namespace {

constexpr int kTextTokens = 30;
constexpr int64_t kAnchors = 64;
constexpr TokenId kLikely = 4;  // Drafter and target predict it more often than other tokens.

struct SpecBlockCase {
  std::string name;
  std::string golden;
  DrafterShape shape;
  int draft_vocabulary;  // 0: all tokens
};

void PrintTo(const SpecBlockCase& test, std::ostream* out) { *out << test.name; }

class TrainableSpecBlockTest : public ServedDrafterFixture,
                               public ::testing::WithParamInterface<SpecBlockCase> {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(LoadTarget(GetParam().golden, /*seed=*/7));
    target_.head = target_.head.clone();
    target_.head[kLikely].mul_(4);
    shape_ = GetParam().shape;
    ChooseDraftTokens(GetParam().draft_vocabulary, shape_);
    drafter_ = Make(shape_);
    ASSERT_NE(drafter_, nullptr);
    MakeTexts(kTextTokens, 26);
    MakeFeatures(*drafter_);
    batch_.head_input = at::randn({2, kTextTokens, hidden()});
  }

  // Equal shapes have equal weights.
  [[nodiscard]] std::unique_ptr<TrainableSpecBlock> Make(const DrafterShape& shape) const {
    auto drafter = TrainableSpecBlock::Create(target_, shape, /*seed=*/1);
    EXPECT_TRUE(drafter.ok()) << drafter.status();
    if (!drafter.ok()) return nullptr;
    // No norm and no shift is the identity, and every weight is one of bf16.
    int64_t number = 0;
    for (const Parameter& parameter : (*drafter)->parameters().all()) {
      at::manual_seed(++number);
      at::Tensor values = parameter.value.detach();
      if (values.dim() == 1) values = values + 0.2 * at::randn(values.sizes());
      if (absl::StartsWith(parameter.name, "shift_proj.") && shape.specblock.shift) {
        values = values + 0.2 * at::randn(values.sizes());
      }
      (*drafter)->parameters().Set(parameter.name, values.to(at::kBFloat16).to(at::kFloat));
    }
    return *std::move(drafter);
  }

  [[nodiscard]] int64_t places() const { return shape_.positions > 0 ? shape_.positions : 4; }

  // Compares one block of the engine with states [K, C].
  void ExpectBlock(const Marginals& served, const at::Tensor& states) const {
    const at::Tensor normed = drafter_->Normed(states);
    const at::Tensor logits = at::linear(normed, drafter_->head());
    const at::Tensor log_q = at::log_softmax(logits, -1);
    const at::Tensor top = std::get<0>(logits.topk(drafter_->rank_top()));
    const at::Tensor classes = drafter_->RankLogits(normed, top).argmax(-1);
    ASSERT_EQ(served.positions, places());
    for (int k = 0; k < served.positions; ++k) {
      EXPECT_EQ(served.bucket(k), classes[k].item<int64_t>()) << "row " << k;
      ASSERT_NO_FATAL_FAILURE(ExpectPosition(served, k, log_q[k]));
    }
  }

  // Expands the root, then the start of each later block, and compares each with its states
  // [1, 1, K, C]. `starts` are rows from 1.
  void ExpectServed(int64_t anchor, const std::vector<int64_t>& starts,
                    const std::vector<at::Tensor>& states) const {
    const at::Tensor tokens = batch_.tokens[0].to(at::kInt).contiguous();
    const TokenId* const ids = tokens.const_data_ptr<TokenId>();
    Frontier frontier = FrontierAt(anchor);
    std::vector<TokenId> path;
    int64_t token = anchor;
    for (size_t block = 0; block < states.size(); ++block) {
      SCOPED_TRACE(block);
      frontier.paths = {path};
      Marginals served;
      ASSERT_NO_FATAL_FAILURE(Draft(frontier, served));
      ASSERT_NO_FATAL_FAILURE(ExpectBlock(served, states[block][0][0]));
      frontier.new_tokens.clear();
      if (block == starts.size()) break;
      // The tokens before the start are the likeliest ones. The start is the token of the text.
      for (int k = 0; k + 1 < starts[block]; ++k) path.push_back(served.token(k, 0));
      token += starts[block];
      path.push_back(ids[token]);
    }
  }

  // The loss and its gradients, from blocks without caches.
  struct PlainLoss {
    at::Tensor loss;
    int64_t labels = 0;
  };
  [[nodiscard]] PlainLoss LossOfPlainBlocks(const std::vector<at::Tensor>& outputs,  // [n, K, C]
                                            const std::vector<at::Tensor>& teacher,
                                            const std::vector<int64_t>& starts) const {
    const BlockLearning& learning = shape_.specblock.learning;
    const at::Tensor columns =
        at::tensor(std::vector<int64_t>(columns_.begin(), columns_.end()), at::kLong);
    // Whether all places before the start of the next block are right, for each anchor.
    std::vector<std::vector<bool>> valid_starts(starts.size());
    PlainLoss result = {at::zeros({}, at::kFloat)};
    double shares = 0;
    for (size_t block = 0; block < outputs.size(); ++block) {
      std::vector<at::Tensor> sums(places(), at::zeros({}, at::kFloat));
      std::vector<int64_t> counts(places(), 0);
      for (int64_t n = 0; n < outputs[block].size(0); ++n) {
        bool valid = !learning.carries_mask || block == 0 || valid_starts[block - 1][n];
        for (int64_t k = 0; k < places(); ++k) {
          if (block < starts.size() && k + 1 == starts[block]) valid_starts[block].push_back(valid);
          const at::Tensor logits = at::linear(teacher[block][n][k], target_.head);
          const at::Tensor log_q = at::log_softmax(
              at::linear(drafter_->Normed(outputs[block][n][k]), drafter_->head()), -1);
          const auto wanted = logits.argmax(-1).item<int64_t>();
          const bool known = columns.eq(wanted).any().item<bool>();
          if (known && (valid || !learning.prefix_mask)) {
            sums[k] = sums[k] - (at::softmax(logits.index({columns}), -1) * log_q).sum();
            ++counts[k];
          }
          valid = valid && columns[log_q.argmax(-1)].item<int64_t>() == wanted;
        }
      }
      for (int64_t k = 0; k < places(); ++k) {
        result.labels += counts[k];
        if (counts[k] == 0) continue;
        const double share = std::pow(learning.position_decay, k);
        // A column in which few anchors count has less weight.
        const double sharing =
            std::max<double>(counts[k], static_cast<double>(outputs[block].size(0)) / 8);
        result.loss = result.loss + share * sums[k] / sharing;
        shares += share * counts[k] / sharing;
      }
    }
    result.loss = result.loss / shares;
    return result;
  }

  DrafterShape shape_;
  std::unique_ptr<TrainableSpecBlock> drafter_;
};

TEST_P(TrainableSpecBlockTest, BlocksFromEveryStartEqualTheEngines) {
  ASSERT_NO_FATAL_FAILURE(Serve(*drafter_));
  const at::NoGradGuard no_gradients;
  for (const int64_t anchor : {int64_t{1}, int64_t{2}, int64_t{17}, kTextTokens - 2 * places()}) {
    for (int64_t start = 1; start <= places(); ++start) {
      SCOPED_TRACE(::testing::Message() << "anchor " << anchor << ", start " << start);
      // One more block from an inner row.
      const std::vector<int64_t> starts = {start, 1 + (start + anchor) % (places() - 1)};
      const std::vector<at::Tensor> states =
          drafter_->Forward(batch_.features.narrow(0, 0, 1), batch_.tokens.narrow(0, 0, 1),
                            at::full({1, 1}, anchor, at::kLong), starts);
      ASSERT_EQ(states.size(), 3u);
      ASSERT_NO_FATAL_FAILURE(ExpectServed(anchor, starts, states));
    }
  }
}

TEST_P(TrainableSpecBlockTest, LossAndGradientsAreThoseOfAForwardWithoutCaches) {
  if (!shape_.specblock.shift) GTEST_SKIP() << "the plain forward trains the shift";
  drafter_->BeginStep(/*step=*/1, /*done=*/0);  // Without the rank head.
  Draws draws(1, 1), same(1, 1);
  const StepLoss loss = drafter_->AddGradients(batch_, draws);
  EXPECT_EQ(loss.rank_loss, 0);
  std::vector<at::Tensor> gradients;
  for (const Parameter& parameter : drafter_->parameters().all()) {
    const at::Tensor& gradient = parameter.value.grad();
    gradients.push_back(gradient.defined() ? gradient.clone() : gradient);
    at::Tensor(parameter.value).mutable_grad().reset();
  }
  const int64_t blocks = shape_.specblock.learning.blocks;
  const at::Tensor anchors = DrawAnchors(batch_, kAnchors, blocks * places(), same);
  std::vector<int64_t> starts;
  for (int64_t block = 1; block < blocks; ++block) starts.push_back(1 + same.Below(places()));
  ASSERT_TRUE(SaveDrafter(*drafter_, folder_.path()).ok());
  const auto config = hub::ReadModelConfig(folder_.path());
  ASSERT_TRUE(config.ok()) << config.status();
  const PlainSpecBlock plain(*drafter_, target_, *config);
  std::vector<std::vector<at::Tensor>> outputs(blocks), teacher(blocks);
  for (int64_t text = 0; text < 2; ++text) {
    std::map<int64_t, std::vector<at::Tensor>> by_anchor;  // An anchor may be drawn several times.
    for (int64_t a = 0; a < kAnchors; ++a) {
      const auto anchor = anchors[text][a].item<int64_t>();
      std::vector<at::Tensor>& states = by_anchor[anchor];
      if (states.empty()) {
        states = plain.Blocks(batch_.tokens[text], batch_.features[text], anchor, starts);
      }
      int64_t first = anchor;
      for (int64_t block = 0; block < blocks; ++block) {
        if (block > 0) first += starts[block - 1];
        outputs[block].push_back(states[block]);
        teacher[block].push_back(batch_.head_input[text].narrow(0, first, places()));
      }
    }
  }
  std::vector<at::Tensor> all_outputs, all_teachers;
  for (int64_t block = 0; block < blocks; ++block) {
    all_outputs.push_back(at::stack(outputs[block]));
    all_teachers.push_back(at::stack(teacher[block]));
  }
  const PlainLoss expected = LossOfPlainBlocks(all_outputs, all_teachers, starts);
  expected.loss.backward();
  EXPECT_GT(loss.labels, kAnchors);
  EXPECT_EQ(loss.labels, expected.labels);
  EXPECT_NEAR(loss.loss, expected.loss.item<double>(), 1e-4);
  for (size_t i = 0; i < gradients.size(); ++i) {
    const Parameter& parameter = drafter_->parameters().all()[i];
    if (absl::StartsWith(parameter.name, "rank_head.")) {
      EXPECT_FALSE(gradients[i].defined()) << parameter.name;
      continue;
    }
    EXPECT_GT(gradients[i].abs().max().item<float>(), 0) << parameter.name;
    EXPECT_TRUE(at::allclose(gradients[i], parameter.value.grad(), 1e-3, 1e-5))
        << parameter.name << " differs by "
        << (gradients[i] - parameter.value.grad()).abs().max().item<float>();
  }
}

TEST_P(TrainableSpecBlockTest, TheRankHeadLearnsAloneFromItsStep) {
  std::vector<at::Tensor> without;
  for (const double done : {0.05, 0.1}) {
    drafter_->BeginStep(/*step=*/10, done);
    Draws draws(1, 1);
    const StepLoss loss = drafter_->AddGradients(batch_, draws);
    EXPECT_EQ(loss.rank_loss > 0, done == 0.1);
    size_t next = 0;
    for (const Parameter& parameter : drafter_->parameters().all()) {
      const at::Tensor gradient = parameter.value.grad();
      const bool is_rank_head = absl::StartsWith(parameter.name, "rank_head.");
      if (is_rank_head) {
        EXPECT_EQ(gradient.defined(), done == 0.1) << parameter.name;
      } else if (done < 0.1) {
        without.push_back(gradient.defined() ? gradient.clone() : at::Tensor());
      } else if (gradient.defined()) {
        EXPECT_TRUE(at::equal(gradient, without[next])) << parameter.name;
      }
      if (!is_rank_head) ++next;
      at::Tensor(parameter.value).mutable_grad().reset();
    }
  }
}

TEST_P(TrainableSpecBlockTest, TheEngineReadsWhatTheTrainerSaved) {
  ASSERT_NO_FATAL_FAILURE(Serve(*drafter_));
  EXPECT_EQ(engine_->feature_layers(), drafter_->feature_layers());
  EXPECT_TRUE(engine_->info().expands_nodes);
  EXPECT_EQ(engine_->info().positions, places());
  const auto read = hub::ReadModelConfig(folder_.path());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->kind, hub::ModelKind::kSpecBlock);
  EXPECT_EQ(read->architecture, "LlamaForCausalLMSpecBlockShift");
  EXPECT_EQ(read->drafter.head.target_layers, drafter_->feature_layers());
  EXPECT_EQ(read->drafter.head.vocabulary, static_cast<int>(columns_.size()));
  EXPECT_EQ(read->drafter.specblock.positions, places());
  EXPECT_EQ(read->drafter.specblock.rank_classes, kRankClasses);
  EXPECT_EQ(read->drafter.specblock.path_positions, shape_.specblock.path_positions);
  EXPECT_EQ(read->drafter.specblock.prefix_broadcast, shape_.specblock.prefix_broadcast);
  EXPECT_EQ(read->dims.layers, shape_.layers > 0 ? shape_.layers : 2);
  EXPECT_EQ(read->blocks.rope.theta, target_.config.blocks.rope.theta);
}

TEST_P(TrainableSpecBlockTest, TheLossesFall) {
  // With a mask, more places would count as more of them are right.
  shape_.specblock.learning.prefix_mask = false;
  drafter_ = Make(shape_);
  std::vector<StepLoss> losses;
  for (int step = 1; step <= 30; ++step) {
    drafter_->BeginStep(step, /*done=*/0.5);
    Draws draws(1, /*step=*/1);
    losses.push_back(drafter_->AddGradients(batch_, draws));
    const at::NoGradGuard no_gradients;
    for (const Parameter& parameter : drafter_->parameters().all()) {
      at::Tensor value = parameter.value;
      if (!value.grad().defined()) continue;
      value.sub_(value.grad().sign(), 0.003);
      value.mutable_grad().reset();
    }
  }
  EXPECT_LT(losses.back().loss, 0.9 * losses.front().loss);
  EXPECT_LT(losses.back().rank_loss, losses.front().rank_loss);
  EXPECT_GT(losses.back().hits[0], losses.front().hits[0]);
}

std::vector<SpecBlockCase> Cases() {
  const BlockLearning code = {
      .blocks = 3, .position_decay = 0.8, .carries_mask = true, .ordinal_ranks = true};
  const SpecBlockShape unmasked = {.learning = {.blocks = 3, .prefix_mask = false}};
  return {
      {"all_tokens", "eagle3_specforge", {}, 0},
      {"some_tokens",
       "eagle3_specforge",
       {.layers = 3,
        .feature_layers = {2, 4, 5},
        .positions = 3,
        .specblock = {.path_positions = true, .learning = code}},
       50},
      {"grouped", "gqa4_tied_draft5", {.feature_layers = {1, 2}, .specblock = unmasked}, 40},
      {"no_shift", "eagle3_specforge", {.specblock = {.shift = false}}, 50},
      {"no_prefix_broadcast", "eagle3_specforge", {.specblock = {.prefix_broadcast = false}}, 50},
  };
}

INSTANTIATE_TEST_SUITE_P(Shapes, TrainableSpecBlockTest, ::testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

TEST(TrainableSpecBlockShapeTest, WrongShapesAreRefusedByName) {
  const auto target = FrozenTarget::Load(testing::GoldenFolder("eagle3_specforge") + "/target");
  ASSERT_TRUE(target.ok());
  const auto error = [&](const DrafterShape& shape) {
    const auto drafter = TrainableSpecBlock::Create(*target, shape, 1);
    EXPECT_EQ(drafter.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(drafter.status().message());
  };
  EXPECT_TRUE(absl::StrContains(error({.positions = 1}), "--positions is 1"));
  EXPECT_TRUE(absl::StrContains(error({.positions = 65}), "--positions is 65"));
  EXPECT_TRUE(
      absl::StrContains(error({.specblock = {.learning = {.blocks = 0}}}), "--blocks is 0"));
  EXPECT_TRUE(absl::StrContains(error({.feature_layers = {0, 3}}), "names layer 0"));
  EXPECT_TRUE(absl::StrContains(error({.draft_tokens = {4, 160}}), "token 160"));
}

}  // namespace
}  // namespace bastion::train
