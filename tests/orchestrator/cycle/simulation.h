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
#include "orchestrator/policy/shared_learning.h"
#include "tests/support/simulated_device.h"

namespace bastion::testing {

struct SimulatedRun {
  double tokens = 0;
  double milliseconds = 0;  // Without noise.
  int cycles = 0;
  int drafts = 0;    // Requests drafted for, summed over the cycles.
  double nodes = 0;  // Over all requests.

  [[nodiscard]] double pace() const { return tokens / milliseconds; }
};

// The requests of a closed loop.
class SimulatedLoad {
 public:
  virtual ~SimulatedLoad() = default;
  [[nodiscard]] virtual SimulatedTexts& texts() = 0;
  // The request with this number, counted from 0, with the session id `number`.
  [[nodiscard]] virtual DecodeRequest Request(int number) = 0;
  [[nodiscard]] virtual PriorInputs prior() const { return {}; }
};

// Random texts, with drafts of a given quality.
class DrawnLoad : public SimulatedLoad {
 public:
  // Returns the drafts of the request with this number.
  using DraftsOf = std::function<SimulatedDrafts(int number)>;
  static constexpr int kTokensPerRequest = 128;

  explicit DrawnLoad(DraftsOf drafts) : drafts_(std::move(drafts)) {}
  SimulatedTexts& texts() final { return texts_; }
  DecodeRequest Request(int number) override {
    texts_.SetDrafts(number, drafts_(number));
    DecodeRequest request;
    request.id = {static_cast<uint64_t>(number), 0};
    request.prompt = {1};
    request.max_tokens = kTokensPerRequest;
    return request;
  }

 private:
  const DraftsOf drafts_;
  DrawnTexts texts_;
};

class Simulation {
 public:
  static constexpr double kNoise = 0.05;  // Relative spread of all times.

  // `load` must outlive this object, and serve it alone.
  Simulation(const DeviceCurve& curve, int concurrency, const std::string& policy,
             SimulatedLoad* load)
      : device(curve, &load->texts(), kNoise),
        policy_(*Policy::Parse(policy)),
        load_(load),
        costs_(*CostModel::Fit(device.Target(), curve.Profile())),
        memory_(load->prior()),
        cycle_(device.Target(), &device.drafter(), &device.verifier(), &costs_, &device.clock()) {
    live_.resize(concurrency);
    for (auto& sequence : live_) sequence = NextRequest();
  }

  // See ForestPlanner::FixPrice. In tokens per millisecond.
  void FixPrice(double pace) { cycle_.FixPrice(1000 * pace); }

  SimulatedRun Run(int cycles) {
    SimulatedRun run;
    const double began = device.milliseconds;
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
    run.milliseconds = device.milliseconds - began;
    run.drafts = device.drafted_sequences - drafted;
    return run;
  }

  // The requests that are live after the last cycle.
  [[nodiscard]] const std::vector<std::unique_ptr<DecodeSequence>>& live() const { return live_; }

  SimulatedDevice device;

 private:
  std::unique_ptr<DecodeSequence> NextRequest() {
    auto sequence = std::make_unique<DecodeSequence>(
        load_->Request(requests_++), policy_.NewRequest(/*greedy=*/true, &costs_, &memory_));
    sequence->RecordPrefill(sequence->prompt_left());  // Prompts take no time here.
    return sequence;
  }

  const Policy policy_;
  SimulatedLoad* const load_;
  CostModel costs_;
  SharedLearning memory_;
  DecodeCycle cycle_;
  int requests_ = 0;
  std::vector<std::unique_ptr<DecodeSequence>> live_;
};

// Enough cycles for a pace that is exact to about 1 percent.
inline int CyclesFor(int concurrency) { return std::max(500, 4000 / concurrency); }

// The pace of `policy` in a closed loop, tokens per millisecond.
inline double PaceOf(const std::string& policy, const DeviceCurve& curve, int concurrency,
                     const DrawnLoad::DraftsOf& drafts) {
  DrawnLoad load(drafts);
  return Simulation(curve, concurrency, policy, &load).Run(CyclesFor(concurrency)).pace();
}

}  // namespace bastion::testing

#endif  // BASTION_TESTS_ORCHESTRATOR_CYCLE_SIMULATION_H_
