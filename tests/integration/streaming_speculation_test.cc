// Speculation over a target with attention sinks and a window: the text of every policy is that of
// plain decoding with the same window.
#include <gtest/gtest.h>

#include <algorithm>

#include "common/base/check.h"
#include "orchestrator/profile/verify_profile.h"
#include "tests/support/streaming_reference.h"
#include "tools/bench/arm.h"
#include "tools/bench/load_plan.h"
#include "tools/bench/prompts.h"
#include "tools/inprocess/local_stages.h"

namespace bastion {
namespace {

constexpr int kNewTokens = 48;
constexpr nn::StreamingWindow kWindow = {.sinks = 4, .tokens = 40};
const std::string kModels = std::string(BASTION_SOURCE_DIR) + "/deploy/demo_model_neox";

// The demo pair, with quick costs.
class Pair {
 public:
  Pair(const std::string& weights, const nn::StreamingWindow& window) {
    LocalOptions options;
    options.target_folder = kModels + "/target";
    options.drafter_folder = kModels + "/drafter";
    options.formats.weights = weights;
    options.device = {.threads = 2};
    options.memory.kv_tokens = 4096;
    options.memory.streaming = window;
    auto stages = LocalStages::Create(options);
    CHECK(stages.ok()) << stages.status();
    stages_ = *std::move(stages);
    ProfileOptions quick;
    quick.row_counts = {1, 4, 16};
    quick.contexts = {16};
    quick.time_limit = absl::ZeroDuration();
    quick.session = uint64_t{1} << 40;
    auto table = MeasureProfile(stages_->verifier(), Clock::Real(), quick);
    CHECK(table.ok()) << table.status();
    table_ = *std::move(table);
  }

  PromptMeasurement Generate(const std::string& policy, float temperature,
                             const BenchPrompt& prompt) {
    BenchSettings settings;
    settings.sampling.temperature = temperature;
    settings.sampling.seed = 7;
    settings.max_new_tokens = kNewTokens;
    settings.ignore_eos = true;
    const std::vector<BenchPrompt> prompts = {prompt};  // The plan refers to them.
    const auto plans = PlanLoads({.concurrency = {1}}, prompts, settings);
    const auto arm = MakeLocalArm(policy, {&stages_->verifier(), &stages_->drafter()}, table_, {});
    CHECK(plans.ok() && arm.ok()) << plans.status() << arm.status();
    auto run = (*arm)->Run((*plans)[0], settings);
    CHECK(run.ok()) << run.status();
    return run->requests.at(0);
  }

 private:
  std::unique_ptr<LocalStages> stages_;
  LatencyProfile table_;
};

// A prompt that is longer than sinks and window.
BenchPrompt LongPrompt() {
  auto prompts = LoadPrompts(kModels + "/prompts.jsonl", kModels + "/target");
  CHECK(prompts.ok()) << prompts.status();
  BenchPrompt prompt = (*prompts)[0];
  for (size_t i = 1; prompt.tokens.size() < 70; ++i) {
    const std::vector<TokenId>& more = (*prompts)[i].tokens;
    prompt.tokens.insert(prompt.tokens.end(), more.begin(), more.end());
  }
  return prompt;
}

class StreamingSpeculationTest : public ::testing::TestWithParam<std::string> {};

TEST_P(StreamingSpeculationTest, EveryPolicyWritesTheTextOfPlainDecoding) {
  Pair pair(GetParam(), kWindow);
  const BenchPrompt prompt = LongPrompt();
  for (const float temperature : {0.0f, 1.0f}) {
    const PromptMeasurement plain = pair.Generate("ar", temperature, prompt);
    EXPECT_EQ(plain.output.size(), static_cast<size_t>(kNewTokens));
    for (const char* policy : {"fixed:8", "linear:6", "default"}) {
      const PromptMeasurement drafted = pair.Generate(policy, temperature, prompt);
      EXPECT_EQ(drafted.output, plain.output) << policy << " at temperature " << temperature;
      if (std::string(policy) != "default") {
        EXPECT_LT(drafted.cycles.size(), plain.cycles.size()) << policy << ": nothing was accepted";
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Types, StreamingSpeculationTest, ::testing::Values("fp32", "bf16"),
                         [](const auto& info) { return info.param; });

TEST(StreamingTextTest, TheTextIsThatOfThePapersProcedureAndNotThatOfFullAttention) {
  const BenchPrompt prompt = LongPrompt();
  const PromptMeasurement streamed = Pair("fp32", kWindow).Generate("ar", 0, prompt);
  testing::StreamingReference reference(kModels + "/target", kWindow.sinks, kWindow.tokens);
  testing::StreamingReference::Vector logits;
  for (const TokenId token : prompt.tokens) logits = reference.Append(token);
  std::vector<TokenId> text;
  for (int i = 0; i < kNewTokens; ++i) {
    const auto best = std::max_element(logits.begin(), logits.end());
    text.push_back(static_cast<TokenId>(best - logits.begin()));
    logits = reference.Append(text.back());
  }
  EXPECT_EQ(streamed.output, text);
  EXPECT_NE(Pair("fp32", {}).Generate("ar", 0, prompt).output, text);
}

}  // namespace
}  // namespace bastion
