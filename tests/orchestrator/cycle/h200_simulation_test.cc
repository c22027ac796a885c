// Compares the adaptive policy with plain decoding and with named policies on a simulated H200,
// where requests with short answers come and go. Their prompts take time in the forwards of the
// target and in the calls of the drafter.
#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/orchestrator/cycle/simulation.h"

namespace bastion {
namespace {

using ::bastion::testing::CyclesFor;
using ::bastion::testing::DeviceCurve;
using ::bastion::testing::DrawnLoad;
using ::bastion::testing::Ladder;
using ::bastion::testing::Probabilities;
using ::bastion::testing::SimulatedDrafts;
using ::bastion::testing::Simulation;

// `fixed:N` commits about as many tokens per cycle as it did on the H200: 2.26 with 2 nodes, 2.68
// with 4, 2.99 with 8.
SimulatedDrafts Drafts(int /*request*/) {
  Probabilities probabilities;
  for (const double top : {0.75, 0.68, 0.55, 0.5, 0.45, 0.45, 0.4, 0.4}) {
    probabilities.push_back(Ladder(/*positions=*/1, /*candidates=*/16, top, /*share=*/0.4)[0]);
  }
  return SimulatedDrafts::Calibrated(probabilities);
}

// Prompts as long as those that were measured, and answers of 64 tokens.
class ShortAnswers final : public DrawnLoad {
 public:
  ShortAnswers() : DrawnLoad(Drafts) {}
  DecodeRequest Request(int number) override {
    const int prompt_tokens[] = {144, 104, 72, 103, 104, 192, 48, 192};
    DecodeRequest request = DrawnLoad::Request(number);
    request.prompt = std::vector<TokenId>(prompt_tokens[number % 8], 1);
    request.max_tokens = 64;
    return request;
  }
  int prompt_rows() const override { return 256; }
};

// Tokens per millisecond with `concurrency` requests. As in the measured load, fewer requests were
// live before, and the policy knows their costs only.
double PaceOf(const std::string& policy, int concurrency) {
  ShortAnswers load;
  Simulation simulation(DeviceCurve::MeasuredGpu(), 1, policy, &load);
  for (const int level : {1, 4, 16, 32, 64}) {
    if (level > concurrency) break;
    simulation.SetConcurrency(level);
    simulation.Run(std::max(100, 1000 / level));
  }
  return simulation.Run(CyclesFor(concurrency)).pace();
}

class H200SimulationTest : public ::testing::TestWithParam<int> {};

TEST_P(H200SimulationTest, AdaptiveIsAsFastAsTheBestNamedPolicyAndPlainDecoding) {
  const int concurrency = GetParam();
  const double plain = PaceOf("ar", concurrency), adaptive = PaceOf("adaptive", concurrency);
  double best = plain;
  for (const char* policy : {"fixed:2", "fixed:4", "fixed:8", "fixed:16"}) {
    best = std::max(best, PaceOf(policy, concurrency));
  }
  std::cout << concurrency << " requests: best " << best / plain << ", adaptive "
            << adaptive / plain << "\n";
  EXPECT_GE(adaptive, 0.99 * plain);
  EXPECT_GE(adaptive, 0.98 * best);
}
// Sanitizers slow the simulation down.
INSTANTIATE_TEST_SUITE_P(All, H200SimulationTest,
                         ::testing::ValuesIn(BASTION_SANITIZED ? std::vector{4}
                                                               : std::vector{1, 4, 16, 32, 64}));

TEST(FallingLoadTest, DraftsPayAgainAfterABurstOfRequests) {
  if (BASTION_SANITIZED) GTEST_SKIP() << "sanitizers slow it down";
  ShortAnswers load;
  Simulation simulation(DeviceCurve::MeasuredGpu(), 64, "adaptive", &load);
  simulation.Run(500);
  simulation.SetConcurrency(16);
  simulation.Run(300);
  const double pace = simulation.Run(CyclesFor(16)).pace();
  EXPECT_GE(pace, 0.97 * PaceOf("adaptive", 16));
}

}  // namespace
}  // namespace bastion
