// ServingTelemetry: the orchestrator's observers: its timeline, and metrics, the console's feed and
// traces as far as they are on. Thread-safe.
#ifndef BASTION_ORCHESTRATOR_PROGRAM_SERVING_TELEMETRY_H_
#define BASTION_ORCHESTRATOR_PROGRAM_SERVING_TELEMETRY_H_

#include <optional>

#include "common/telemetry/service_telemetry.h"
#include "orchestrator/console/console_feed.h"
#include "orchestrator/observe/serving_metrics.h"
#include "orchestrator/observe/serving_timeline.h"
#include "orchestrator/observe/serving_trace.h"

namespace bastion {

class ServingTelemetry {
 public:
  // `telemetry` must outlive this object.
  explicit ServingTelemetry(ServiceTelemetry* telemetry) : timeline_(&telemetry->timeline()) {
    observers_.Add(&timeline_);
    if (telemetry->metrics() != nullptr) {
      observers_.Add(&metrics_.emplace(*telemetry->metrics()));
      observers_.Add(&feed_.emplace());
    }
    if (telemetry->tracer() != nullptr) observers_.Add(&trace_.emplace(telemetry->tracer()));
  }

  [[nodiscard]] ServingObserver* observer() { return &observers_; }
  // Null if there is no HTTP server.
  [[nodiscard]] ConsoleFeed* feed() { return feed_.has_value() ? &*feed_ : nullptr; }
  // Sets the gauges.
  void Refresh(const SchedulerStats& stats) {
    if (metrics_.has_value()) metrics_->Refresh(stats);
  }

 private:
  ServingTimeline timeline_;
  std::optional<ServingMetrics> metrics_;
  std::optional<ConsoleFeed> feed_;
  std::optional<ServingTrace> trace_;
  ObserverList observers_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_PROGRAM_SERVING_TELEMETRY_H_
