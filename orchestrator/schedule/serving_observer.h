// ServingObserver: is told what happens to requests and in cycles, to make metrics and traces of
// it. The cycle's thread calls it, so an implementation must be fast. Thread-safe.
#ifndef BASTION_ORCHESTRATOR_SCHEDULE_SERVING_OBSERVER_H_
#define BASTION_ORCHESTRATOR_SCHEDULE_SERVING_OBSERVER_H_

#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "common/telemetry/trace_context.h"
#include "orchestrator/cycle/cycle_summary.h"

namespace bastion {

class LiveRequest;

// A request that commits prompt tokens in a cycle.
struct ServedChunk {
  LiveRequest* request;
  int tokens;
};

// The requests of a cycle.
struct ServedCycle {
  std::vector<LiveRequest*> decoding;
  std::vector<ServedChunk> chunks;
  int waiting = 0;  // Further requests that run, and whose prompts are not processed yet.
};

class ServingObserver {
 public:
  virtual ~ServingObserver() = default;
  // True if it reads SchedulerStats::reliability, which takes time to collect.
  [[nodiscard]] virtual bool wants_reliability() const { return false; }
  // A cycle begins. Returns its context for the other services; not valid if they should not trace
  // it.
  virtual TraceContext OnCycleBegin(const ServedCycle& /*requests*/) { return {}; }
  // The cycle has ended. The requests that decoded without an error have gained output; their
  // records of the cycle are their last ones. The others are no longer in `requests`.
  virtual void OnCycle(const CycleSummary& cycle, const ServedCycle& requests) = 0;
  // A request has ended: with its complete answer, or with an error. Called once per request, by
  // any thread.
  virtual void OnEnd(const LiveRequest& request, const absl::Status& status) = 0;
  // A call was refused: its request is invalid, the queue is full, or the service is not ready.
  virtual void OnRefusal(const absl::Status& /*status*/) {}
  // A request lost its memory and waits again.
  virtual void OnPreemption(const LiveRequest& /*request*/) {}
};

// Calls `tell` with `observer`, unless that is null. An exception is logged and ends here, because
// it must not end the requests that are observed. Thread-safe.
void TellObserver(ServingObserver* observer, absl::FunctionRef<void(ServingObserver&)> tell);

// Passes everything on to several observers. An exception of one does not keep the event from the
// others.
class ObserverList final : public ServingObserver {
 public:
  // Before the first call of another method. `observer` must outlive this object.
  void Add(ServingObserver* observer) { observers_.push_back(observer); }

  bool wants_reliability() const override;
  // The last valid context of the observers.
  TraceContext OnCycleBegin(const ServedCycle& requests) override;
  void OnCycle(const CycleSummary& cycle, const ServedCycle& requests) override;
  void OnEnd(const LiveRequest& request, const absl::Status& status) override;
  void OnRefusal(const absl::Status& status) override;
  void OnPreemption(const LiveRequest& request) override;

 private:
  // Calls `tell` with each of them.
  void TellAll(absl::FunctionRef<void(ServingObserver&)> tell) const;

  std::vector<ServingObserver*> observers_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_SCHEDULE_SERVING_OBSERVER_H_
