// ServingTrace: the orchestrator's spans. docs/tracing.md shows the tree.
//
// A request has a span of its own, which its call makes (call_trace.h). Below it: queue, prefill,
// and one span per cycle with the request's part of each stage. A cycle of several requests is also
// a trace of its own: its span, with the spans of the drafter and the verifier below it, is linked
// with the cycle spans of its requests, in both directions. The only request of a cycle has the
// spans of the services below its own cycle span. Thread-safe.
#ifndef BASTION_ORCHESTRATOR_OBSERVE_SERVING_TRACE_H_
#define BASTION_ORCHESTRATOR_OBSERVE_SERVING_TRACE_H_

#include <vector>

#include "common/telemetry/tracer.h"
#include "orchestrator/schedule/serving_observer.h"

namespace bastion {

class ServingTrace final : public ServingObserver {
 public:
  // `tracer` must outlive this object.
  explicit ServingTrace(Tracer* tracer) : tracer_(*tracer) {}

  TraceContext OnCycleBegin(const ServedCycle& requests) override;
  void OnCycle(const CycleSummary& cycle, const ServedCycle& requests) override;
  void OnEnd(const LiveRequest& request, const absl::Status& status) override;

 private:
  // Adds the spans of the stages below the cycle's span.
  void AddStages(const CycleSummary& cycle, std::vector<Span>* spans) const;
  // The span of one request's part of the cycle.
  [[nodiscard]] static Span RequestCycle(const CycleSummary& cycle, const LiveRequest& request);

  Tracer& tracer_;
  // The context of the current cycle; not valid if it is not traced. Used by the cycle's thread.
  TraceContext cycle_;
  uint64_t cycle_parent_ = 0;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_OBSERVE_SERVING_TRACE_H_
