// Runs decode cycles of a closed loop on a simulated device: a request that ends is replaced at
// once. Header-only.
#ifndef BASTION_TESTS_ORCHESTRATOR_CYCLE_SIMULATION_H_
#define BASTION_TESTS_ORCHESTRATOR_CYCLE_SIMULATION_H_

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "orchestrator/cycle/decode_cycle.h"
#include "orchestrator/policy/speculation_memory.h"
#include "tests/support/simulated_device.h"

namespace bastion::testing {

struct SimulatedRun {
  double tokens = 0;
  double milliseconds = 0;
  int cycles = 0;
  int drafts = 0;    // Requests drafted for, summed over the cycles.
  double nodes = 0;  // Over all requests.

  [[nodiscard]] double pace() const { return tokens / milliseconds; }
};

class Simulation {
 public:
  // Returns the drafts of the request with this number, counted from 0.
  using DraftsOf = std::function<SimulatedDrafts(int request)>;
  static constexpr int kTokensPerRequest = 128;
  static constexpr double kNoise = 0.05;  // Relative spread of all times.

  Simulation(const DeviceCurve& curve, int concurrency, const std::string& policy, DraftsOf drafts)
      : device(curve, kNoise),
        policy_(*Policy::Parse(policy)),
        drafts_(std::move(drafts)),
        costs_(*CostModel::Fit(SimulatedDevice::Target(), device.Calibration())),
        cycle_(SimulatedDevice::Target(), &device.drafter(), &device.verifier(), &costs_,
               &device.clock()) {
    live_.resize(concurrency);
    for (auto& sequence : live_) sequence = NextRequest();
  }

  SimulatedRun Run(int cycles) {
    SimulatedRun run;
    const absl::Duration began = device.clock().Now();
    const int drafted = device.drafted_sequences;
    for (; run.cycles < cycles; ++run.cycles) {
      Batch batch;
      for (auto& sequence : live_) {
        if (sequence->done()) sequence = NextRequest();
        batch.push_back(sequence.get());
      }
      CHECK(cycle_.Step(batch).ok());
      for (const auto& sequence : live_) {
        run.tokens += sequence->cycles().back().committed_length;
        run.nodes += sequence->cycles().back().nodes;
      }
    }
    run.milliseconds = absl::ToDoubleMilliseconds(device.clock().Now() - began);
    run.drafts = device.drafted_sequences - drafted;
    return run;
  }

  // The requests that are live after the last cycle.
  [[nodiscard]] const std::vector<std::unique_ptr<DecodeSequence>>& live() const { return live_; }

  SimulatedDevice device;

 private:
  std::unique_ptr<DecodeSequence> NextRequest() {
    device.SetDrafts(requests_, drafts_(requests_));
    DecodeRequest request;
    request.id = {static_cast<uint64_t>(requests_++), 0};
    request.prompt = {1};
    request.max_tokens = kTokensPerRequest;
    return std::make_unique<DecodeSequence>(std::move(request),
                                            policy_.NewRequest(/*greedy=*/true, &costs_, &memory_));
  }

  const Policy policy_;
  const DraftsOf drafts_;
  CostModel costs_;
  SpeculationMemory memory_;
  DecodeCycle cycle_;
  int requests_ = 0;
  std::vector<std::unique_ptr<DecodeSequence>> live_;
};

// Enough cycles for a pace that is exact to about 1 percent.
inline int CyclesFor(int concurrency) { return std::max(500, 4000 / concurrency); }

// The pace of `policy` in a closed loop, tokens per millisecond.
inline double PaceOf(const std::string& policy, const DeviceCurve& curve, int concurrency,
                     const Simulation::DraftsOf& drafts) {
  return Simulation(curve, concurrency, policy, drafts).Run(CyclesFor(concurrency)).pace();
}

}  // namespace bastion::testing

#endif  // BASTION_TESTS_ORCHESTRATOR_CYCLE_SIMULATION_H_
