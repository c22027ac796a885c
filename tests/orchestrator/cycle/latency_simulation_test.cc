// A request with a latency target beside requests that saturate the server, in simulated time.
#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "orchestrator/cycle/batch_planner.h"
#include "tests/orchestrator/cycle/simulation.h"

namespace bastion {
namespace {

using ::bastion::testing::DeviceCurve;
using ::bastion::testing::DrawnTexts;
using ::bastion::testing::Ladder;
using ::bastion::testing::SimulatedDevice;
using ::bastion::testing::SimulatedDrafts;
using ::bastion::testing::Simulation;

// The requests beside the one that is watched. A request that ends is replaced at once.
struct Others {
  int requests = 0;
  std::string policy = "adaptive";
};

// What the requests received in a number of forwards.
struct Service {
  std::vector<double> gaps;  // Milliseconds between two outputs of the watched request.
  int64_t tokens = 0;        // Output of the others.
  int64_t prompt_tokens = 0;

  [[nodiscard]] double mean_gap() const {
    return std::accumulate(gaps.begin(), gaps.end(), 0.0) / static_cast<double>(gaps.size());
  }
  [[nodiscard]] double p99_gap() const {
    std::vector<double> sorted = gaps;
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() * 99 / 100];
  }
};

class Server {
 public:
  static constexpr int kPromptRows = 256;

  Server(const DeviceCurve& curve, std::optional<double> target_ms, const Others& others)
      : device_(curve, &texts_, Simulation::kNoise), others_(others) {
    if (target_ms.has_value()) target_ = absl::Milliseconds(*target_ms);
    live_.push_back({New("adaptive", /*prompt=*/1, /*max_tokens=*/10'000'000, target_), {}});
    for (int i = 0; i < others.requests; ++i) live_.push_back({NewOther(), {}});
  }

  Service Run(int forwards) {
    Service service;
    for (int i = 0; i < forwards; ++i) Step(service);
    return service;
  }

 private:
  struct Live {
    std::unique_ptr<DecodeSequence> sequence;
    BatchHistory history;
  };

  std::unique_ptr<DecodeSequence> New(const std::string& policy, int prompt, int max_tokens,
                                      std::optional<absl::Duration> target) {
    DecodeRequest request;
    request.id = {next_session_++, 0};
    texts_.SetDrafts(request.id.session, SimulatedDrafts::Calibrated(Ladder(8, 16, 0.7)));
    request.prompt = std::vector<TokenId>(prompt, 1);
    request.max_tokens = max_tokens;
    request.latency_target = target;
    return std::make_unique<DecodeSequence>(
        std::move(request), Policy::Parse(policy)->NewRequest(/*greedy=*/true, &costs_, &memory_));
  }
  // Every second one has a long prompt and a short answer.
  std::unique_ptr<DecodeSequence> NewOther() {
    return next_session_ % 2 == 0 ? New(others_.policy, 4000, 64, std::nullopt)
                                  : New(others_.policy, 16, 512, std::nullopt);
  }

  void Step(Service& service) {
    std::vector<BatchCandidate> decoding, prompts;
    for (Live& live : live_) {
      if (live.sequence->done()) live = {NewOther(), {}};
      const BatchCandidate candidate = {live.sequence.get(), &live.history};
      (live.sequence->prompt_left() > 0 ? prompts : decoding).push_back(candidate);
    }
    const BatchPlan plan =
        PlanBatch(decoding, prompts, {device_.Target().max_rows, kPromptRows}, costs_);
    Batch batch;
    std::vector<PromptChunk> chunks;
    for (const size_t i : plan.decoding) batch.push_back(decoding[i].sequence);
    for (const auto& [i, rows] : plan.prompts) {
      chunks.push_back({prompts[i].sequence, rows});
      service.prompt_tokens += rows;
    }
    const absl::Duration began = device_.clock().Now();
    CHECK(cycle_.Step(batch, chunks).ok());
    for (const DecodeSequence* sequence : batch) {
      if (sequence == live_[0].sequence.get()) {
        service.gaps.push_back(absl::ToDoubleMilliseconds(device_.clock().Now() - began));
      } else {
        service.tokens += sequence->cycles().back().committed_length;
      }
    }
  }

  DrawnTexts texts_;
  SimulatedDevice device_;
  const Others others_;
  std::optional<absl::Duration> target_;
  CostModel costs_ = *CostModel::Fit(device_.Target(), device_.curve.Profile());
  SharedLearning memory_;
  DecodeCycle cycle_{device_.Target(), &device_.drafter(), &device_.verifier(), &costs_,
                     &device_.clock()};
  uint64_t next_session_ = 0;
  std::vector<Live> live_;
};

struct Case {
  const char* curve;
  Others others;

  friend std::ostream& operator<<(std::ostream& out, const Case& one) {
    return out << one.curve << "_" << one.others.policy;
  }
};

class LatencySimulationTest : public ::testing::TestWithParam<Case> {};

TEST_P(LatencySimulationTest, ARequestKeepsTwiceItsUndisturbedGapWhileOthersSaturateTheServer) {
  const std::string name = GetParam().curve;
  const DeviceCurve curve = name == "demo"       ? DeviceCurve::Demo()
                            : name == "inflated" ? DeviceCurve::Inflated()
                                                 : DeviceCurve::Gpu();
  constexpr int kForwards = 2000;
  Server alone(curve, std::nullopt, {});
  alone.Run(200);
  const double target = 2 * alone.Run(kForwards).mean_gap();

  const Others& others = GetParam().others;
  Server without(curve, std::nullopt, others);
  without.Run(200);
  EXPECT_GT(without.Run(kForwards).p99_gap(), target);

  Server with(curve, target, others);
  with.Run(200);
  const Service service = with.Run(kForwards);
  EXPECT_EQ(service.gaps.size(), size_t{kForwards});  // The request decodes in every forward.
  EXPECT_LE(service.p99_gap(), target);
  // The others use what the target leaves.
  EXPECT_GE(service.mean_gap(), 0.6 * target);
  EXPECT_GE(service.tokens, kForwards);
  EXPECT_GE(service.prompt_tokens, kForwards);
}
INSTANTIATE_TEST_SUITE_P(All, LatencySimulationTest,
                         ::testing::Values(Case{"demo", {31, "adaptive"}},
                                           Case{"inflated", {31, "adaptive"}},
                                           Case{"gpu", {191, "adaptive"}},
                                           Case{"demo", {31, "fixed:8"}},
                                           Case{"inflated", {31, "ar"}}));

}  // namespace
}  // namespace bastion
