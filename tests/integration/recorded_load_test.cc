// Compares the default policy with the others under load, on the texts and drafts of the demo pair.
// The time is that of simulated devices, so the results do not depend on the machine.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/orchestrator/cycle/simulation.h"
#include "tests/support/recorded_texts.h"
#include "tools/bench/prompts.h"
#include "tools/inprocess/local_stages.h"

namespace bastion {
namespace {

using ::bastion::testing::DeviceCurve;
using ::bastion::testing::RecordedTexts;
using ::bastion::testing::SimulatedLoad;
using ::bastion::testing::SimulatedRun;
using ::bastion::testing::SimulatedTexts;
using ::bastion::testing::Simulation;

const std::string kModels = std::string(BASTION_SOURCE_DIR) + "/deploy/demo_model";
constexpr int kTokens = 64;
constexpr int kWarmUpPasses = 2, kPasses = 4;  // Over all recorded texts.

// The demo pair's texts and its transition table. Recorded once.
struct Recording {
  std::unique_ptr<LocalStages> stages;
  RecordedTexts texts;

  static Recording Make() {
    LocalOptions options;
    options.target_folder = kModels + "/target";
    options.drafter_folder = kModels + "/drafter";
    auto stages = *LocalStages::Create(options);
    const std::vector<BenchPrompt> loaded =
        *LoadPrompts(kModels + "/prompts.jsonl", options.target_folder);
    std::vector<std::vector<TokenId>> prompts;
    for (const BenchPrompt& prompt : loaded) prompts.push_back(prompt.tokens);
    RecordedTexts texts =
        *RecordedTexts::Record(stages->verifier(), stages->drafter(), prompts, kTokens);
    return {std::move(stages), std::move(texts)};
  }
};

// Serves the recorded texts in turn. `prompt_rows`: see SimulatedLoad.
class RecordedLoad final : public SimulatedLoad {
 public:
  RecordedLoad(Recording* recording, int prompt_rows)
      : recording_(recording), prompt_rows_(prompt_rows) {}
  SimulatedTexts& texts() override { return recording_->texts; }
  DecodeRequest Request(int number) override {
    DecodeRequest request;
    request.id = {static_cast<uint64_t>(number), 0};
    request.prompt = recording_->texts.prompt(number % recording_->texts.size());
    request.max_tokens = kTokens;
    return request;
  }
  PriorInputs prior() const override {
    return {.vocabulary = recording_->texts.vocabulary(), .table = recording_->stages->table()};
  }
  int prompt_rows() const override { return prompt_rows_; }

 private:
  Recording* const recording_;
  const int prompt_rows_;
};

// Tokens per millisecond of `policy` in a closed loop. `price`: see Simulation::FixPrice. 0: none.
double PaceOf(const std::string& policy, const DeviceCurve& curve, int concurrency,
              Recording* recording, double price = 0) {
  // The load that was measured on the H200 had prompts that take time, and rose in steps.
  const bool measured = curve.context_token > 0;
  RecordedLoad load(recording, measured ? 256 : 0);
  Simulation simulation(curve, measured ? 1 : concurrency, policy, &load);
  if (price > 0) simulation.FixPrice(price);
  const double pass = recording->texts.size() * kTokens;
  const auto run = [&](double tokens) {
    SimulatedRun run;
    while (run.tokens < tokens) {
      const SimulatedRun more = simulation.Run(1);
      run.tokens += more.tokens;
      run.milliseconds += more.milliseconds;
    }
    return run;
  };
  for (int level = 1; measured && level < concurrency; level *= 4) {
    simulation.SetConcurrency(level);
    run(pass);
  }
  simulation.SetConcurrency(concurrency);
  run(kWarmUpPasses * pass);
  return run(kPasses * pass).pace();
}

struct Load {
  const char* device;
  int concurrency;
  double bar;  // Least speed of the default policy, relative to the best other policy.

  friend std::ostream& operator<<(std::ostream& out, const Load& load) {
    return out << load.device << "_" << load.concurrency;
  }
};

DeviceCurve CurveOf(const std::string& device) {
  if (device == "gpu") return DeviceCurve::Gpu();
  if (device == "h200") return DeviceCurve::MeasuredGpu();
  return device == "demo" ? DeviceCurve::Demo() : DeviceCurve::Inflated();
}

class RecordedLoadTest : public ::testing::TestWithParam<Load> {
 protected:
  static Recording& recording() {
    static Recording recording = Recording::Make();
    return recording;
  }
};

TEST_P(RecordedLoadTest, TheDefaultPolicyIsTheFastestOrNearlySo) {
  const Load& load = GetParam();
  const DeviceCurve curve = CurveOf(load.device);
  const auto pace = [&](const std::string& policy) {
    return PaceOf(policy, curve, load.concurrency, &recording());
  };
  const double plain = pace("ar"), by_default = pace("default");
  double best = plain;
  std::string best_policy = "ar";
  for (const char* policy :
       {"chain", "fixed:2", "fixed:4", "fixed:8", "fixed:16", "ngram:1", "ngram:2", "ngram:4"}) {
    const double other = pace(policy);
    if (other > best) best_policy = policy;
    best = std::max(best, other);
  }
  std::printf("%s_%d, relative to plain decoding: %s %.3f, default %.3f\n", load.device,
              load.concurrency, best_policy.c_str(), best / plain, by_default / plain);
  EXPECT_GE(by_default, 0.99 * plain);
  EXPECT_GE(by_default, load.bar * best) << best_policy;
}

class PriceTest : public RecordedLoadTest {};

TEST_P(PriceTest, ThePriceOfTimeIsNearlyAsGoodAsTheBestConstantOne) {
  if (BASTION_SANITIZED) GTEST_SKIP() << "sanitizers slow it down";
  const Load& load = GetParam();
  const DeviceCurve curve = CurveOf(load.device);
  const double by_default = PaceOf("default", curve, load.concurrency, &recording());
  double best = 0, best_price = 0;
  for (const double price : {0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.35}) {
    const double pace =
        PaceOf("default", curve, load.concurrency, &recording(), price * by_default);
    if (pace > best) best_price = price;
    best = std::max(best, pace);
  }
  std::printf("%s_%d: %.3f of the best constant price, %.2f of the pace\n", load.device,
              load.concurrency, by_default / best, best_price);
  EXPECT_GE(by_default, 0.97 * best);
}
INSTANTIATE_TEST_SUITE_P(Gpu, PriceTest,
                         ::testing::Values(Load{"gpu", 1, 0}, Load{"gpu", 4, 0}, Load{"gpu", 16, 0},
                                           Load{"gpu", 32, 0}, Load{"gpu", 64, 0}));
INSTANTIATE_TEST_SUITE_P(Gpu, RecordedLoadTest,
                         ::testing::Values(Load{"gpu", 1, 0.98}, Load{"gpu", 4, 0.98},
                                           Load{"gpu", 16, 1.02}, Load{"gpu", 32, 1.05},
                                           Load{"gpu", 64, 1.06}));
INSTANTIATE_TEST_SUITE_P(H200, RecordedLoadTest,
                         ::testing::Values(Load{"h200", 1, 0.98}, Load{"h200", 4, 0.98},
                                           Load{"h200", 16, 0.98}, Load{"h200", 32, 0.98},
                                           Load{"h200", 64, 0.98}));
INSTANTIATE_TEST_SUITE_P(Cpu, RecordedLoadTest,
                         ::testing::Values(Load{"demo", 1, 0.98}, Load{"demo", 8, 0.98},
                                           Load{"demo", 32, 0.98}, Load{"inflated", 1, 0.98},
                                           Load{"inflated", 4, 0.98}, Load{"inflated", 32, 0.98}));

}  // namespace
}  // namespace bastion
