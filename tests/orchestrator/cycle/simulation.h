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
#include "orchestrator/cycle/batch_planner.h"
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
  // Prompt tokens per forward, all requests together. 0: prompts take no time.
  [[nodiscard]] virtual int prompt_rows() const { return 0; }
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
    SetConcurrency(concurrency);
  }

  // From now on, this number of requests is live. Those beyond it are dropped.
  void SetConcurrency(int concurrency) {
    while (static_cast<int>(live_.size()) > concurrency) live_.pop_back();
    while (static_cast<int>(live_.size()) < concurrency) live_.push_back(NextRequest());
  }

  // See ForestPlanner::FixPrice. In tokens per millisecond.
  void FixPrice(double pace) { cycle_.FixPrice(1000 * pace); }

  SimulatedRun Run(int cycles) {
    SimulatedRun run;
    const double began = device.milliseconds;
    const int drafted = device.drafted_sequences;
    for (; run.cycles < cycles; ++run.cycles) {
      std::vector<BatchCandidate> prompts;
      Batch batch;
      for (Live& live : live_) {
        if (live.sequence->done()) live = NextRequest();
        if (live.sequence->prompt_left() > 0) {
          prompts.push_back({live.sequence.get(), &live.history});
        } else {
          batch.push_back(live.sequence.get());
        }
      }
      Step(batch, prompts);
      for (const DecodeSequence* sequence : batch) {
        run.tokens += sequence->cycles().back().committed_length;
        run.nodes += sequence->cycles().back().nodes;
      }
    }
    run.milliseconds = device.milliseconds - began;
    run.drafts = device.drafted_sequences - drafted;
    return run;
  }

  struct Live {
    std::unique_ptr<DecodeSequence> sequence;
    BatchHistory history = {};
  };
  // The requests that are live after the last cycle.
  [[nodiscard]] const std::vector<Live>& live() const { return live_; }

  SimulatedDevice device;

 private:
  Live NextRequest() {
    Live live = {std::make_unique<DecodeSequence>(
        load_->Request(requests_++), policy_.NewRequest(/*greedy=*/true, &costs_, &memory_))};
    if (load_->prompt_rows() == 0) live.sequence->RecordPrefill(live.sequence->prompt_left());
    return live;
  }
  // Runs a cycle of `batch`, with as many tokens of `prompts` as a forward holds.
  void Step(const Batch& batch, absl::Span<const BatchCandidate> prompts) {
    const int max_rows = device.Target().max_rows - static_cast<int>(batch.size());
    const BatchPlan plan = PlanBatch({}, prompts, {max_rows, load_->prompt_rows()}, costs_);
    std::vector<PromptChunk> chunks;
    for (const auto& [i, rows] : plan.prompts) chunks.push_back({prompts[i].sequence, rows});
    CHECK(cycle_.Step(batch, chunks, plan.waiting).ok());
  }

  const Policy policy_;
  SimulatedLoad* const load_;
  CostModel costs_;
  SharedLearning memory_;
  DecodeCycle cycle_;
  int requests_ = 0;
  std::vector<Live> live_;
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
