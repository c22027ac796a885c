// Tests sampling parameters: against transformers' logits processors (goldens/sampling.json,
// written by make_sampling_goldens.py), and on the rows of a tree.
#include "verifier_service/verify/logit_edits.h"

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <tuple>

#include "common/base/random.h"
#include "engine/host/host_logits.h"
#include "engine/program/local_device.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "verifier_service/verify/tree_rows.h"

namespace bastion::verifier {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::Pair;
using ::testing::Pointwise;

constexpr float kMasked = -std::numeric_limits<float>::infinity();

json Goldens() {
  return json::parse(
      std::ifstream(BASTION_SOURCE_DIR "/tests/verifier_service/goldens/sampling.json"));
}

SamplingParams SamplingOf(const json& golden) {
  SamplingParams sampling;
  sampling.temperature = golden["temperature"];
  sampling.top_k = golden["top_k"];
  sampling.top_p = golden["top_p"];
  sampling.min_p = golden["min_p"];
  sampling.repetition_penalty = golden["repetition_penalty"];
  sampling.presence_penalty = golden["presence_penalty"];
  sampling.frequency_penalty = golden["frequency_penalty"];
  for (const auto& [token, bias] : golden["logit_bias"].items()) {
    sampling.logit_bias.emplace_back(std::stoi(token), bias.get<float>());
  }
  sampling.prompt_tokens = static_cast<int>(golden["prompt"].size());
  sampling.min_tokens = golden["min_tokens"];
  sampling.stop_tokens = golden["stop_tokens"].get<std::vector<TokenId>>();
  return sampling;
}

// Prompt and output.
std::vector<TokenId> TextOf(const json& golden) {
  auto text = golden["prompt"].get<std::vector<TokenId>>();
  for (const TokenId token : golden["output"]) text.push_back(token);
  return text;
}

TokenHistory HistoryOf(const std::vector<TokenId>& text, int prompt_tokens) {
  TokenHistory history(prompt_tokens);
  for (const TokenId token : text) history.Push(token);
  return history;
}

class LogitEditsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { device_ = *nn::OpenLocalDevice(2); }
  static void TearDownTestSuite() { device_ = {}; }

  std::vector<TokenId> Choose(std::vector<float>& logits, const DraftTree& tree,
                              const SamplingParams& sampling, TokenHistory& history) {
    const int vocabulary = static_cast<int>(logits.size()) / tree.rows();
    nn::HostLogits memory(device_.device->host(), vocabulary);
    std::copy(logits.begin(), logits.end(), memory.Reserve(tree.rows()));
    const TreeRows rows = {&tree, 0, 0, &sampling, &history};
    EXPECT_TRUE(memory.Edit(EditsOf({rows})).ok());
    const std::vector<kernels::ChoiceRule> rules = RulesOf({rows}, tree.rows());
    std::vector<TokenId> choices(tree.rows());
    memory.Choose({tree.rows(), nullptr, rules.data(), choices.data()});
    memory.Restore();
    logits.assign(*memory.Row(0), *memory.Row(0) + logits.size());
    return choices;
  }

  static inline nn::LocalDevice device_;
};

TEST_F(LogitEditsTest, MatchTransformers) {
  for (const json& golden : Goldens()) {
    const auto before = golden["logits"].get<std::vector<float>>();
    std::vector<float> expected;
    for (const json& logit : golden["edited"]) {
      expected.push_back(logit.is_null() ? kMasked : logit.get<float>());
    }
    const SamplingParams sampling = SamplingOf(golden);
    const TokenHistory history = HistoryOf(TextOf(golden), sampling.prompt_tokens);
    std::vector<float> logits = before;
    EditRow(sampling, history, logits.data());
    EXPECT_THAT(logits, Pointwise(FloatNear(1e-5f), expected)) << golden;
  }
}

TEST_F(LogitEditsTest, TheChoiceIsAmongTheTokensThatTransformersKeeps) {
  for (const json& golden : Goldens()) {
    SamplingParams sampling = SamplingOf(golden);
    std::vector<TokenId> text = TextOf(golden);
    const DraftTree root(text.back());
    text.pop_back();
    TokenHistory history = HistoryOf(text, sampling.prompt_tokens);
    auto logits = golden["logits"].get<std::vector<float>>();
    for (uint64_t seed = 0; seed < 50; ++seed) {
      sampling.seed = seed;
      TokenId best = -1;
      float value = kMasked;
      for (const TokenId token : golden["kept"]) {
        const float candidate = golden["edited"][token].get<float>() / sampling.temperature +
                                KeyedGumbel(seed, /*position=*/1, token);
        if (candidate > value) std::tie(best, value) = std::pair(token, candidate);
      }
      EXPECT_THAT(Choose(logits, root, sampling, history), ElementsAre(best)) << golden;
    }
  }
}

TEST_F(LogitEditsTest, EveryRowOfATreeChoosesAsIfItsPathWereCommitted) {
  std::mt19937 random(8);
  constexpr int kVocabulary = 40;
  std::normal_distribution<float> normal(0, 1);
  const std::vector<TokenId> text = {3, 5, 5, 9, 30};
  DraftTree tree(/*root=*/9);  // Siblings, cousins, and tokens that repeat on one path only.
  for (const auto& [parent, token] :
       std::vector<std::pair<int, TokenId>>{{0, 5}, {0, 7}, {1, 5}, {1, 7}, {2, 7}, {3, 5}}) {
    tree.Add(NodeIndex::Of(parent), token, -1.0f);
  }
  for (const float temperature : {0.0f, 1.0f}) {
    SamplingParams sampling = {{temperature, 4}, 1.5f, 0.9f, 0.8f, {{2, 1.0f}}};
    sampling.prompt_tokens = 3;
    sampling.min_tokens = 5;
    sampling.stop_tokens = {0, 1};
    std::vector<float> logits(size_t(tree.rows()) * kVocabulary);
    for (float& logit : logits) logit = normal(random);
    const std::vector<float> before = logits;
    TokenHistory history = HistoryOf(text, sampling.prompt_tokens);
    const std::vector<TokenId> together = Choose(logits, tree, sampling, history);
    EXPECT_EQ(logits, before);
    for (NodeIndex node = 0; node < tree.rows(); ++node) {
      std::vector<TokenId> path;
      for (NodeIndex at = node; at != kNoNode; at = tree.parent(at)) path.push_back(tree.token(at));
      std::vector<TokenId> alone = text;
      alone.insert(alone.end(), path.rbegin(), path.rend());
      std::vector<float> row(logits.begin() + node.value() * kVocabulary,
                             logits.begin() + (node.value() + 1) * kVocabulary);
      EditRow(sampling, HistoryOf(alone, sampling.prompt_tokens), row.data());
      kernels::ChoiceRule rule = {temperature, 4, tree.depth(node) + 1};
      TokenId expected = -1;
      const nn::HostKernels& host = device_.device->host();
      host.backend->choose({row.data(), &rule, &expected, 1, kVocabulary}, *host.pool);
      EXPECT_EQ(together[node], expected) << "node " << node;
    }
  }
}

TEST_F(LogitEditsTest, LogprobsOfAPathAreThoseOfTheRowsBeforeItsTokens) {
  DraftTree tree(/*root=*/4);
  tree.Add(0, 1, -2.0f);
  const NodeIndex child = tree.Add(0, 2, -1.0f);
  SamplingParams sampling = {{1.0f, 1, 2, 0.5f}, 2.0f};
  sampling.logprobs = 2;
  TokenHistory history;
  const auto scored =
      ScoredRows({&tree, 0, /*first_row=*/5, &sampling, &history}, {{child}, /*next=*/3});
  ASSERT_EQ(scored.size(), 2u);
  EXPECT_EQ(std::tuple(scored[0].row, scored[0].token, scored[0].top), std::tuple(5, 2, 2));
  EXPECT_EQ(std::tuple(scored[1].row, scored[1].token, scored[1].top), std::tuple(7, 3, 2));
}

TEST_F(LogitEditsTest, LogprobsAreThoseOfTheSoftmaxOfTheRow) {
  nn::HostLogits memory(device_.device->host(), 4);
  const std::vector<float> logits = {0, 1, 2, 3, /*row 1:*/ 5, 0, 0, 0};
  std::copy(logits.begin(), logits.end(), memory.Reserve(2));
  const std::vector<TokenLogprobs> logprobs = *memory.Score({{0, 2, 2}, {1, 3, 9}, {0, 0, 0}});
  ASSERT_EQ(logprobs.size(), 3u);
  const double first = std::log(1 + std::exp(1) + std::exp(2) + std::exp(3));
  EXPECT_NEAR(logprobs[0].chosen, 2 - first, 1e-5);
  EXPECT_THAT(logprobs[0].top,
              ElementsAre(Pair(3, FloatNear(static_cast<float>(3 - first), 1e-5f)),
                          Pair(2, FloatNear(static_cast<float>(2 - first), 1e-5f))));
  EXPECT_NEAR(logprobs[1].chosen, -std::log(std::exp(5) + 3), 1e-5);
  EXPECT_EQ(logprobs[1].top.size(), 4u) << "the vocabulary has no more tokens";
  EXPECT_EQ(logprobs[1].top[0].first, 0);
  EXPECT_NEAR(logprobs[2].chosen, -first, 1e-5);
  EXPECT_TRUE(logprobs[2].top.empty());
}

// The top list of such a row has no tokens, and the first of them was looked up at index -1.
TEST_F(LogitEditsTest, LogprobsOfARowWithNanLogitsAreEmpty) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  nn::HostLogits memory(device_.device->host(), 4);
  const std::vector<float> logits = {nan, 1, nan, nan};
  std::copy(logits.begin(), logits.end(), memory.Reserve(1));
  const std::vector<TokenLogprobs> logprobs = *memory.Score({{0, /*token=*/1, 3}});
  ASSERT_EQ(logprobs.size(), 1u);
  EXPECT_TRUE(std::isnan(logprobs[0].chosen));
  EXPECT_TRUE(logprobs[0].top.empty());
}

}  // namespace
}  // namespace bastion::verifier
