// Two priorities that overload a server together, in simulated time: the order of admission and the
// planner of the trees together.
#include <array>
#include <memory>
#include <vector>

#include "common/base/check.h"
#include "gtest/gtest.h"
#include "orchestrator/cycle/decode_cycle.h"
#include "orchestrator/schedule/fair_order.h"
#include "tests/orchestrator/schedule/live_request_fixture.h"
#include "tests/support/simulated_device.h"

namespace bastion {
namespace {

using ::bastion::testing::DeviceCurve;
using ::bastion::testing::DrawnTexts;
using ::bastion::testing::Ladder;
using ::bastion::testing::RequestMaker;
using ::bastion::testing::SimulatedDevice;
using ::bastion::testing::SimulatedDrafts;

constexpr int kRunning = 24;

// What the requests of one priority received.
struct Share {
  double slots = 0;  // Summed over the cycles.
  double nodes = 0;
  double tokens = 0;
};

class OverloadedServer {
 public:
  // Enough requests of both priorities wait that the queue never runs out of either.
  OverloadedServer() {
    for (int i = 0; i < 2 * kRunning; ++i) {
      for (const int priority : {10, 40}) order_.Add(NewRequest(priority));
    }
  }

  // The shares of priority 10 and of priority 40.
  std::array<Share, 2> Run(int cycles) {
    std::array<Share, 2> shares;
    for (int i = 0; i < cycles; ++i) {
      Admit();
      Batch batch;
      for (const auto& request : running_) batch.push_back(&request->sequence());
      CHECK(cycle_.Step(batch).ok());
      for (const auto& request : running_) {
        const CycleRecord& record = request->sequence().cycles().back();
        Share& share = shares[request->weight() > 1];
        ++share.slots;
        share.nodes += record.nodes;
        share.tokens += record.committed_length;
        order_.Charge(*request, record.committed_length);
      }
      Retire();
    }
    return shares;
  }

 private:
  std::unique_ptr<LiveRequest> NewRequest(int priority) {
    return maker_.Make(
        {.priority = priority, .prompt = {1}, .max_tokens = 128, .policy = "adaptive"});
  }
  void Admit() {
    while (running_.size() < kRunning) {
      running_.push_back(order_.Take());
      const uint64_t number = admissions_++;
      texts_.SetDrafts(number, SimulatedDrafts::Calibrated(Ladder(8, 16, 0.7)));
      running_.back()->CreateSequence({number, 0}, number, &costs_, &memory_);
    }
  }
  // A request that ends is followed by another one of its priority.
  void Retire() {
    std::erase_if(running_, [this](const auto& request) {
      if (!request->sequence().done()) return false;
      order_.ReleaseSlot(*request);
      order_.Add(NewRequest(request->weight() > 1 ? 40 : 10));
      order_.Leave(*request);
      return true;
    });
  }

  DrawnTexts texts_;
  SimulatedDevice device_{DeviceCurve::Gpu(), &texts_};
  RequestMaker maker_{&device_.clock()};
  CostModel costs_ = *CostModel::Fit(device_.Target(), device_.curve.Profile());
  SharedLearning memory_;
  DecodeCycle cycle_{device_.Target(), &device_.drafter(), &device_.verifier(), &costs_,
                     &device_.clock()};
  FairOrder order_;
  std::vector<std::unique_ptr<LiveRequest>> running_;
  uint64_t admissions_ = 0;
};

TEST(PrioritySimulationTest, TwoPrioritiesUnderOverloadGetSlotsAndNodesByTheirWeights) {
  OverloadedServer server;
  server.Run(200);
  const auto [low, high] = server.Run(2000);
  // The service is in proportion to the weights.
  EXPECT_NEAR(high.tokens / low.tokens, 4, 0.2);
  // A request with more weight gets larger trees, so its class needs fewer slots for its service.
  EXPECT_GT(high.nodes / high.slots, 1.3 * low.nodes / low.slots);
  EXPECT_GT(high.slots / low.slots, 2);
}

}  // namespace
}  // namespace bastion
