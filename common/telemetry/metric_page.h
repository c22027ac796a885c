// MetricPage: the metrics of a service, and the HTTP page /metrics that shows them in the text
// format of Prometheus. Thread-safe.
#ifndef BASTION_COMMON_TELEMETRY_METRIC_PAGE_H_
#define BASTION_COMMON_TELEMETRY_METRIC_PAGE_H_

#include <prometheus/registry.h>

#include <functional>
#include <string>
#include <utility>

#include "common/base/mutex.h"
#include "common/http/http_server.h"

namespace bastion {

class MetricPage {
 public:
  // Has the metric bastion_build_info, for `service`.
  explicit MetricPage(const std::string& service);

  [[nodiscard]] prometheus::Registry& registry() { return registry_; }
  // `refresh` sets gauges. It is called before every scrape, by one thread at a time. Call this
  // before Route().
  void SetRefresh(std::function<void()> refresh) { refresh_ = std::move(refresh); }
  // The route GET /metrics. This object must outlive the server.
  [[nodiscard]] HttpRoute Route();

 private:
  prometheus::Registry registry_;
  std::function<void()> refresh_ = [] {};
  Mutex mutex_;  // Held during a scrape.
};

}  // namespace bastion

#endif  // BASTION_COMMON_TELEMETRY_METRIC_PAGE_H_
