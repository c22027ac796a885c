// MetricMaker: makes the metrics of a service in a Prometheus registry. All of them have the same
// constant labels. Making a metric with the name and labels of an earlier one returns that one.
// Thread-safe.
#ifndef BASTION_COMMON_TELEMETRY_METRIC_MAKER_H_
#define BASTION_COMMON_TELEMETRY_METRIC_MAKER_H_

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <string>
#include <utility>

namespace bastion {

// Buckets for the durations of requests, in seconds: from a millisecond to an hour.
[[nodiscard]] const prometheus::Histogram::BucketBoundaries& RequestSeconds();
// Buckets for the durations of cycles and stages, in seconds: from 20 µs to 30 seconds, each 1.5
// times the one before.
[[nodiscard]] const prometheus::Histogram::BucketBoundaries& CycleSeconds();

class MetricMaker {
 public:
  // `registry` must outlive this object.
  MetricMaker(prometheus::Registry* registry, prometheus::Labels constant)
      : registry_(*registry), constant_(std::move(constant)) {}

  [[nodiscard]] prometheus::Counter& Counter(const std::string& name, const std::string& help,
                                             const prometheus::Labels& labels = {}) const;
  [[nodiscard]] prometheus::Gauge& Gauge(const std::string& name, const std::string& help,
                                         const prometheus::Labels& labels = {}) const;
  [[nodiscard]] prometheus::Histogram& Histogram(
      const std::string& name, const std::string& help,
      const prometheus::Histogram::BucketBoundaries& buckets,
      const prometheus::Labels& labels = {}) const;

 private:
  prometheus::Registry& registry_;
  const prometheus::Labels constant_;
};

}  // namespace bastion

#endif  // BASTION_COMMON_TELEMETRY_METRIC_MAKER_H_
