// DrafterTelemetry: the drafter's timeline, metrics and spans (docs/metrics.md, docs/tracing.md).
// Thread-safe.
#ifndef BASTION_DRAFTER_SERVICE_SERVE_DRAFTER_TELEMETRY_H_
#define BASTION_DRAFTER_SERVICE_SERVE_DRAFTER_TELEMETRY_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/stages/timing_trace.h"
#include "common/telemetry/service_telemetry.h"

namespace bastion::drafter {

// An Expand call, as the service sees it. Times are on Clock::Real().
struct MeasuredCall {
  std::string traceparent;  // The orchestrator's cycle.
  absl::Duration arrived;   // Before it waits for the engine.
  absl::Duration began;     // When it has the engine.
};

class DrafterTelemetry {
 public:
  // `telemetry` must outlive this object.
  explicit DrafterTelemetry(ServiceTelemetry* telemetry);
  ~DrafterTelemetry();

  // `trace` is ignored if the call failed.
  void RecordExpand(const MeasuredCall& call, const absl::Status& status, const DraftTrace& trace);
  // The engine handled the arrival of features since `began`, on Clock::Real(). It may have drafted
  // ahead, and then added `context_tokens` tokens to contexts.
  void RecordArrival(absl::Duration began, int context_tokens);
  // The engine added a piece of `context_tokens` tokens to the context of a sequence that is
  // behind, since `began`. 0: that failed.
  void RecordPiece(absl::Duration began, int context_tokens);
  // Sets the gauges.
  void Refresh(int sequences);

 private:
  struct Metrics;

  void Count(const MeasuredCall& call, const absl::Status& status, const DraftTrace& trace);
  void Trace(const MeasuredCall& call, const absl::Status& status, const DraftTrace& trace);

  Timeline& timeline_;
  const std::unique_ptr<Metrics> metrics_;  // Null: no metrics.
  Tracer* const tracer_;                    // Null: no spans.
};

}  // namespace bastion::drafter

#endif  // BASTION_DRAFTER_SERVICE_SERVE_DRAFTER_TELEMETRY_H_
