// TransportMetrics: the metrics of a service's streams to one peer (docs/metrics.md). Thread-safe.
#ifndef BASTION_COMMON_TELEMETRY_TRANSPORT_METRICS_H_
#define BASTION_COMMON_TELEMETRY_TRANSPORT_METRICS_H_

#include <atomic>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "common/telemetry/metric_maker.h"
#include "common/wire/transport_stats.h"

namespace bastion {

class TransportMetrics {
 public:
  // `peer` is the value of the label. `make` may be null: then Refresh does nothing. `stats` must
  // outlive this object.
  TransportMetrics(const MetricMaker* make, const std::string& peer,
                   const wire::TransportStats* stats);

  // Adds what has been counted since the last call.
  void Refresh() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Source {
    const std::atomic<int64_t>* count;
    prometheus::Counter* metric;
    int64_t seen = 0;  // Already added to the metric.
  };

  Mutex mutex_;
  std::vector<Source> sources_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace bastion

#endif  // BASTION_COMMON_TELEMETRY_TRANSPORT_METRICS_H_
