// ServingMetrics: the orchestrator's Prometheus metrics. docs/metrics.md lists them.
//
// The counters of cycles and the statistics of requests count the same things: summed over all
// requests, complete or not, the latter are the increase of the former. Thread-safe.
#ifndef BASTION_ORCHESTRATOR_OBSERVE_SERVING_METRICS_H_
#define BASTION_ORCHESTRATOR_OBSERVE_SERVING_METRICS_H_

#include <memory>

#include "common/telemetry/metric_maker.h"
#include "orchestrator/observe/live_speedup.h"
#include "orchestrator/schedule/scheduler.h"
#include "orchestrator/schedule/serving_observer.h"

namespace bastion {

class ServingMetrics final : public ServingObserver {
 public:
  explicit ServingMetrics(const MetricMaker& make);
  ~ServingMetrics() override;

  bool wants_reliability() const override { return true; }
  void OnCycle(const CycleSummary& cycle, const ServedCycle& requests) override;
  void OnEnd(const LiveRequest& request, const absl::Status& status) override;
  void OnRefusal(const absl::Status& status) override;
  void OnPreemption(const LiveRequest& request) override;

  // Sets the gauges. Call it before each scrape.
  void Refresh(const SchedulerStats& stats);

 private:
  struct Requests;
  struct Cycles;
  struct Gauges;

  // Counts an ended request, or a refused call.
  void CountEnd(const absl::Status& status, const std::string& reason);
  // Counts one request's part of a cycle.
  void CountDecoding(const LiveRequest& request);

  const MetricMaker make_;
  const std::unique_ptr<Requests> requests_;
  const std::unique_ptr<Cycles> cycles_;
  const std::unique_ptr<Gauges> gauges_;
  LiveSpeedup speedup_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_OBSERVE_SERVING_METRICS_H_
