// An observer that throws at every event.
#ifndef BASTION_TESTS_ORCHESTRATOR_SCHEDULE_THROWING_OBSERVER_H_
#define BASTION_TESTS_ORCHESTRATOR_SCHEDULE_THROWING_OBSERVER_H_

#include <new>

#include "orchestrator/schedule/serving_observer.h"

namespace bastion::testing {

// Fails as an observer without memory does.
class ThrowingObserver final : public ServingObserver {
 public:
  TraceContext OnCycleBegin(const ServedCycle&) override { throw std::bad_alloc(); }
  void OnCycle(const CycleSummary&, const ServedCycle&) override { throw std::bad_alloc(); }
  void OnEnd(const LiveRequest&, const absl::Status&) override { throw std::bad_alloc(); }
  void OnRefusal(const absl::Status&) override { throw std::bad_alloc(); }
  void OnPreemption(const LiveRequest&) override { throw std::bad_alloc(); }
};

}  // namespace bastion::testing

#endif  // BASTION_TESTS_ORCHESTRATOR_SCHEDULE_THROWING_OBSERVER_H_
