#include "orchestrator/schedule/serving_observer.h"

#include <gtest/gtest.h>

#include "tests/orchestrator/schedule/live_request_fixture.h"
#include "tests/orchestrator/schedule/throwing_observer.h"

namespace bastion {
namespace {

const TraceContext kContext = {.trace_high = 1, .trace_low = 2, .span = 3};

class CountingObserver final : public ServingObserver {
 public:
  TraceContext OnCycleBegin(const ServedCycle&) override {
    ++events;
    return kContext;
  }
  void OnCycle(const CycleSummary&, const ServedCycle&) override { ++events; }
  void OnEnd(const LiveRequest&, const absl::Status&) override { ++events; }
  void OnRefusal(const absl::Status&) override { ++events; }
  void OnPreemption(const LiveRequest&) override { ++events; }

  int events = 0;
};

TEST(ObserverListTest, AnObserverThatThrowsKeepsNoEventFromTheOthers) {
  CountingObserver before, after;
  testing::ThrowingObserver throwing;
  ObserverList list;
  for (ServingObserver* observer :
       {static_cast<ServingObserver*>(&before), static_cast<ServingObserver*>(&throwing),
        static_cast<ServingObserver*>(&after)}) {
    list.Add(observer);
  }
  const testing::RequestMaker maker;
  const auto request = maker.Make({});
  EXPECT_EQ(list.OnCycleBegin({}).span, kContext.span);
  list.OnCycle({}, {});
  list.OnEnd(*request, absl::OkStatus());
  list.OnRefusal(absl::InternalError("x"));
  list.OnPreemption(*request);
  EXPECT_EQ(before.events, 5);
  EXPECT_EQ(after.events, 5);
}

}  // namespace
}  // namespace bastion
