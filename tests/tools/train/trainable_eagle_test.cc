// The training forward of EAGLE-3 equals the serving engine's, and a forward that caches nothing.
#include "kernels/torch/torch.h"
// After torch.h.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "tests/tools/train/served_drafter_fixture.h"
#include "tools/train/models/anchors.h"
#include "tools/train/models/eagle.h"

namespace bastion::train {
namespace {

constexpr int kSteps = 4;
constexpr int kTextTokens = 40;

// EAGLE-3 without caches: every prediction is one forward over a whole text, as in
// tests/parity/eagle_goldens.py.
class PlainEagle {
 public:
  PlainEagle(const TrainableEagle& drafter, const FrozenTarget& target)
      : drafter_(drafter), target_(target) {}

  // [S, C] The normed outputs of the steps after `anchor`. tokens [T], features [T, F].
  [[nodiscard]] at::Tensor Chain(const at::Tensor& tokens, const at::Tensor& features,
                                 int64_t anchor) const {
    at::Tensor states = at::linear(features.narrow(0, 0, anchor), Weight("fc"));
    std::vector<at::Tensor> outputs;
    for (int64_t step = 0; step < kSteps; ++step) {
      const at::Tensor x = Layer(tokens.narrow(0, 1, anchor + step), states);
      outputs.push_back(Norm(x[-1], "norm"));
      states = at::cat({states, x.narrow(0, -1, 1)});
    }
    return at::stack(outputs);
  }

 private:
  [[nodiscard]] at::Tensor Weight(const std::string& name) const {
    for (const Parameter& parameter : drafter_.parameters().all()) {
      if (parameter.name == name + ".weight") return parameter.value;
    }
    ADD_FAILURE() << name;
    return {};
  }
  [[nodiscard]] at::Tensor Norm(const at::Tensor& x, const std::string& name) const {
    const double epsilon = target_.config.blocks.norm_epsilon;
    return x * at::rsqrt(x.pow(2).mean(-1, true) + epsilon) * Weight(name);
  }
  // [heads, T, D] Row t is at position t.
  [[nodiscard]] at::Tensor Heads(const at::Tensor& x, const std::string& name, bool rotates) const {
    const int64_t dims = target_.config.dims.head_dim, pairs = dims / 2;
    const at::Tensor heads = at::linear(x, Weight("midlayer.self_attn." + name + "_proj"))
                                 .unflatten(-1, {-1, dims})
                                 .transpose(0, 1);
    if (!rotates) return heads;
    const at::Tensor rates =
        at::pow(target_.config.blocks.rope.theta, -at::arange(pairs, at::kFloat) / pairs);
    const at::Tensor angles = at::arange(x.size(0), at::kFloat).unsqueeze(-1) * rates;
    const at::Tensor a = heads.narrow(-1, 0, pairs), b = heads.narrow(-1, pairs, pairs);
    return at::cat({a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()}, -1);
  }
  [[nodiscard]] at::Tensor Layer(const at::Tensor& tokens, const at::Tensor& states) const {
    const at::Tensor embeddings = at::embedding(target_.embedding, tokens);
    const at::Tensor joined = at::cat(
        {Norm(embeddings, "midlayer.input_layernorm"), Norm(states, "midlayer.hidden_norm")}, -1);
    const at::Tensor q = Heads(joined, "q", true);
    const int64_t group = q.size(0) / target_.config.dims.kv_heads;
    const at::Tensor k = Heads(joined, "k", true).repeat_interleave(group, 0);
    const at::Tensor v = Heads(joined, "v", false).repeat_interleave(group, 0);
    const at::Tensor future = at::ones({q.size(1), q.size(1)}, at::kBool).triu(1);
    const at::Tensor scores =
        (at::matmul(q, k.transpose(1, 2)) / std::sqrt(q.size(2))).masked_fill(future, -INFINITY);
    const at::Tensor attended = at::matmul(scores.softmax(-1), v).transpose(0, 1).flatten(1);
    const at::Tensor x = states + at::linear(attended, Weight("midlayer.self_attn.o_proj"));
    const at::Tensor normed = Norm(x, "midlayer.post_attention_layernorm");
    const at::Tensor inner = at::silu(at::linear(normed, Weight("midlayer.mlp.gate_proj"))) *
                             at::linear(normed, Weight("midlayer.mlp.up_proj"));
    return x + at::linear(inner, Weight("midlayer.mlp.down_proj"));
  }

  const TrainableEagle& drafter_;
  const FrozenTarget& target_;
};

struct EagleCase {
  std::string name;
  std::string golden;
  std::vector<int> feature_layers;
  int draft_vocabulary;  // 0: all tokens
};

void PrintTo(const EagleCase& test, std::ostream* out) { *out << test.name; }

class TrainableEagleTest : public ServedDrafterFixture,
                           public ::testing::WithParamInterface<EagleCase> {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(LoadTarget(GetParam().golden, /*seed=*/7));
    DrafterShape shape = {.feature_layers = GetParam().feature_layers, .draft_steps = kSteps};
    ChooseDraftTokens(GetParam().draft_vocabulary, shape);
    auto drafter = TrainableEagle::Create(target_, shape, /*seed=*/1);
    ASSERT_TRUE(drafter.ok()) << drafter.status();
    drafter_ = *std::move(drafter);
    // No norm is the identity, and every weight is one of bf16.
    for (const Parameter& parameter : drafter_->parameters().all()) {
      at::Tensor values = parameter.value.detach();
      if (values.dim() == 1) values = values + 0.2 * at::randn(values.sizes());
      drafter_->parameters().Set(parameter.name, values.to(at::kBFloat16).to(at::kFloat));
    }
    MakeTexts(kTextTokens, 33);
    MakeFeatures(*drafter_);
    batch_.head_input = at::randn({2, kTextTokens, hidden()});
  }

  // Compares each round of a chain after `anchor` of the first text with the log-probabilities
  // [S, D].
  void ExpectServed(int64_t anchor, const at::Tensor& log_q) {
    SCOPED_TRACE(anchor);
    const at::Tensor tokens = batch_.tokens[0].to(at::kInt).contiguous();
    const TokenId* const ids = tokens.const_data_ptr<TokenId>();
    Frontier frontier = FrontierAt(anchor);
    for (int step = 0; step < kSteps; ++step) {
      SCOPED_TRACE(step);
      frontier.paths = {{ids + anchor + 1, ids + anchor + 1 + step}};
      Marginals served;
      ASSERT_NO_FATAL_FAILURE(Draft(frontier, served));
      ASSERT_EQ(served.tokens.size(), columns_.size());
      ASSERT_NO_FATAL_FAILURE(ExpectPosition(served, 0, log_q[step]));
      frontier.new_tokens.clear();
    }
  }

  std::unique_ptr<TrainableEagle> drafter_;
};

TEST_P(TrainableEagleTest, EveryStepEqualsTheEnginesRoundOfAChain) {
  ASSERT_NO_FATAL_FAILURE(Serve(*drafter_));
  const at::NoGradGuard no_gradients;
  const std::vector<int64_t> anchors = {1, 2, 17, kTextTokens - kSteps};
  const at::Tensor places = at::tensor(anchors).unsqueeze(0);
  const at::Tensor rows =
      drafter_->Forward(batch_.features.narrow(0, 0, 1), batch_.tokens.narrow(0, 0, 1), places);
  const at::Tensor log_q = at::log_softmax(at::linear(rows, drafter_->head()), -1);
  for (size_t a = 0; a < anchors.size(); ++a) {
    ExpectServed(anchors[a], log_q[0][static_cast<int64_t>(a)]);
  }
}

TEST_P(TrainableEagleTest, LossAndGradientsAreThoseOfAForwardWithoutCaches) {
  Draws draws(1, 1), same(1, 1);
  const StepLoss loss = drafter_->AddGradients(batch_, draws);
  std::vector<at::Tensor> gradients;
  for (const Parameter& parameter : drafter_->parameters().all()) {
    gradients.push_back(parameter.value.grad().clone());
    at::Tensor(parameter.value).mutable_grad().reset();
  }
  const PlainEagle plain(*drafter_, target_);
  const at::Tensor anchors = DrawAnchors(batch_, /*count=*/32, kSteps, same);
  const at::Tensor columns =
      at::tensor(std::vector<int64_t>(columns_.begin(), columns_.end()), at::kLong);
  at::Tensor sum = at::zeros({}, at::kFloat);
  double weights = 0;
  int64_t labels = 0;
  for (int64_t text = 0; text < 2; ++text) {
    for (int64_t a = 0; a < anchors.size(1); ++a) {
      const auto anchor = anchors[text][a].item<int64_t>();
      const at::Tensor rows = plain.Chain(batch_.tokens[text], batch_.features[text], anchor);
      for (int64_t step = 0; step < kSteps; ++step) {
        const at::Tensor logits = at::linear(batch_.head_input[text][anchor + step], target_.head);
        if (!columns.eq(logits.argmax(-1)).any().item<bool>()) continue;
        const at::Tensor p = at::softmax(logits.index({columns}), -1);
        const at::Tensor log_q = at::log_softmax(at::linear(rows[step], drafter_->head()), -1);
        const double weight = std::pow(0.8, static_cast<double>(step));
        sum = sum - weight * (p * log_q).sum();
        weights += weight;
        ++labels;
      }
    }
  }
  (sum / weights).backward();
  EXPECT_GT(labels, 0);
  EXPECT_EQ(loss.labels, labels);
  EXPECT_NEAR(loss.loss, (sum / weights).item<double>(), 1e-4);
  for (size_t i = 0; i < gradients.size(); ++i) {
    const Parameter& parameter = drafter_->parameters().all()[i];
    EXPECT_TRUE(at::allclose(gradients[i], parameter.value.grad(), 1e-3, 1e-5))
        << parameter.name << " differs by "
        << (gradients[i] - parameter.value.grad()).abs().max().item<float>();
  }
}

TEST_P(TrainableEagleTest, TheEngineReadsWhatTheTrainerSaved) {
  ASSERT_NO_FATAL_FAILURE(Serve(*drafter_));
  EXPECT_EQ(engine_->feature_layers(), drafter_->feature_layers());
  EXPECT_TRUE(engine_->info().expands_nodes);
  const auto read = hub::ReadModelConfig(folder_.path());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->kind, hub::ModelKind::kEagle);
  EXPECT_EQ(read->architecture, "LlamaForCausalLMEagle3");
  EXPECT_EQ(read->drafter.head.target_layers, drafter_->feature_layers());
  EXPECT_EQ(read->drafter.head.vocabulary, static_cast<int>(columns_.size()));
  EXPECT_EQ(read->blocks.rope.theta, target_.config.blocks.rope.theta);
  EXPECT_EQ(read->dims.query_heads, target_.config.dims.query_heads);
  EXPECT_EQ(read->dims.kv_heads, target_.config.dims.kv_heads);
  EXPECT_EQ(read->dims.intermediate, target_.config.dims.intermediate);
}

TEST_P(TrainableEagleTest, TheLossFalls) {
  std::vector<double> losses;
  for (int step = 1; step <= 30; ++step) {
    Draws draws(1, step);
    losses.push_back(drafter_->AddGradients(batch_, draws).loss);
    const at::NoGradGuard no_gradients;
    for (const Parameter& parameter : drafter_->parameters().all()) {
      at::Tensor value = parameter.value;
      value.sub_(value.grad().sign(), 0.005);
      value.mutable_grad().reset();
    }
  }
  EXPECT_LT(losses.back(), 0.8 * losses.front());
}

INSTANTIATE_TEST_SUITE_P(Shapes, TrainableEagleTest,
                         ::testing::Values(EagleCase{"all_tokens", "eagle3_specforge", {}, 0},
                                           EagleCase{
                                               "some_tokens", "eagle3_specforge", {2, 4, 5}, 50},
                                           EagleCase{"grouped", "gqa4_tied_draft5", {1, 2}, 40}),
                         [](const auto& info) { return info.param.name; });

TEST(TrainableEagleShapeTest, WrongShapesAreRefusedByName) {
  const auto target = FrozenTarget::Load(testing::GoldenFolder("eagle3_specforge") + "/target");
  const auto small = FrozenTarget::Load(testing::GoldenFolder("gqa1_tied_draft1") + "/target");
  ASSERT_TRUE(target.ok() && small.ok());
  const auto error = [](const FrozenTarget& of, const DrafterShape& shape) {
    const auto drafter = TrainableEagle::Create(of, shape, 1);
    EXPECT_EQ(drafter.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(drafter.status().message());
  };
  EXPECT_TRUE(absl::StrContains(error(*target, {.layers = 2}), "--layers is 2"));
  EXPECT_TRUE(absl::StrContains(error(*target, {.feature_layers = {0, 3}}), "names layer 0"));
  EXPECT_TRUE(absl::StrContains(error(*target, {.feature_layers = {1, 8}}), "names layer 8"));
  EXPECT_TRUE(absl::StrContains(error(*target, {.feature_layers = {3, 3}}), "different layers"));
  EXPECT_TRUE(absl::StrContains(error(*small, {}), "--feature_layers is missing"));
  EXPECT_TRUE(absl::StrContains(error(*target, {.draft_tokens = {4, 160}}), "token 160"));
}

}  // namespace
}  // namespace bastion::train
