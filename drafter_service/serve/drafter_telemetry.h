// DrafterTelemetry: the drafter's metrics and spans. docs/metrics.md and docs/tracing.md list them.
// Thread-safe.
#ifndef BASTION_DRAFTER_SERVICE_SERVE_DRAFTER_TELEMETRY_H_
#define BASTION_DRAFTER_SERVICE_SERVE_DRAFTER_TELEMETRY_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/stages/timing_trace.h"
#include "common/telemetry/metric_maker.h"
#include "common/telemetry/tracer.h"

namespace bastion::drafter {

// An Expand call, as the service sees it. Times are on Clock::Real().
struct MeasuredCall {
  std::string traceparent;  // The orchestrator's cycle.
  absl::Duration arrived;   // Before it waits for the engine.
  absl::Duration began;     // When it has the engine.
};

class DrafterTelemetry {
 public:
  // Null: no metrics or no spans. `tracer` must outlive this object.
  DrafterTelemetry(const MetricMaker* make, Tracer* tracer);
  ~DrafterTelemetry();

  // `trace` is ignored if the call failed.
  void RecordExpand(const MeasuredCall& call, const absl::Status& status, const DraftTrace& trace);
  // Sets the gauges.
  void Refresh(int sequences);

 private:
  struct Metrics;

  void Count(const MeasuredCall& call, const absl::Status& status, const DraftTrace& trace);
  void Trace(const MeasuredCall& call, const absl::Status& status, const DraftTrace& trace);

  const std::unique_ptr<Metrics> metrics_;
  Tracer* const tracer_;
};

}  // namespace bastion::drafter

#endif  // BASTION_DRAFTER_SERVICE_SERVE_DRAFTER_TELEMETRY_H_
