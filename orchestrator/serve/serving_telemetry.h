// ServingTelemetry: the orchestrator's observers, as far as they are on. Thread-safe.
#ifndef BASTION_ORCHESTRATOR_SERVE_SERVING_TELEMETRY_H_
#define BASTION_ORCHESTRATOR_SERVE_SERVING_TELEMETRY_H_

#include <optional>

#include "common/telemetry/service_telemetry.h"
#include "orchestrator/serve/serving_metrics.h"
#include "orchestrator/serve/serving_trace.h"

namespace bastion {

class ServingTelemetry {
 public:
  // `telemetry` must outlive this object.
  explicit ServingTelemetry(const ServiceTelemetry* telemetry) {
    if (telemetry->metrics() != nullptr) observers_.Add(&metrics_.emplace(*telemetry->metrics()));
    if (telemetry->tracer() != nullptr) observers_.Add(&trace_.emplace(telemetry->tracer()));
  }

  // Null if nothing is measured.
  [[nodiscard]] ServingObserver* observer() {
    return metrics_.has_value() || trace_.has_value() ? &observers_ : nullptr;
  }
  // Sets the gauges.
  void Refresh(const SchedulerStats& stats) {
    if (metrics_.has_value()) metrics_->Refresh(stats);
  }

 private:
  std::optional<ServingMetrics> metrics_;
  std::optional<ServingTrace> trace_;
  ObserverList observers_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_SERVE_SERVING_TELEMETRY_H_
