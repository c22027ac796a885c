#include "common/telemetry/metric_maker.h"

namespace bastion {

const prometheus::Histogram::BucketBoundaries& RequestSeconds() {
  static const prometheus::Histogram::BucketBoundaries buckets = {
      0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.15, 0.25, 0.5, 0.75, 1,
      1.5,   2.5,    5,     7.5,  10,   20,   40,   60,   120, 240,  480,  960, 3600};
  return buckets;
}

const prometheus::Histogram::BucketBoundaries& CycleSeconds() {
  static const prometheus::Histogram::BucketBoundaries buckets = [] {
    prometheus::Histogram::BucketBoundaries bounds;
    for (double seconds = 20e-6; seconds < 30; seconds *= 1.5) bounds.push_back(seconds);
    return bounds;
  }();
  return buckets;
}

prometheus::Counter& MetricMaker::Counter(const std::string& name, const std::string& help,
                                          const prometheus::Labels& labels) const {
  return prometheus::BuildCounter().Name(name).Help(help).Labels(constant_).Register(registry_).Add(
      labels);
}

prometheus::Gauge& MetricMaker::Gauge(const std::string& name, const std::string& help,
                                      const prometheus::Labels& labels) const {
  return prometheus::BuildGauge().Name(name).Help(help).Labels(constant_).Register(registry_).Add(
      labels);
}

prometheus::Histogram& MetricMaker::Histogram(
    const std::string& name, const std::string& help,
    const prometheus::Histogram::BucketBoundaries& buckets,
    const prometheus::Labels& labels) const {
  return prometheus::BuildHistogram()
      .Name(name)
      .Help(help)
      .Labels(constant_)
      .Register(registry_)
      .Add(labels, buckets);
}

}  // namespace bastion
