// ServiceTelemetry: the timeline, the metrics, the tracer and the HTTP server of one service.
// Metrics and traces that are turned off do not exist, so they cost nothing. Thread-safe.
#ifndef BASTION_COMMON_TELEMETRY_SERVICE_TELEMETRY_H_
#define BASTION_COMMON_TELEMETRY_SERVICE_TELEMETRY_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/http/http_server.h"
#include "common/telemetry/metric_maker.h"
#include "common/telemetry/metric_page.h"
#include "common/telemetry/timeline.h"
#include "common/telemetry/tracer.h"

namespace bastion {

struct TelemetryOptions {
  std::string service;  // "orchestrator", "drafter" or "verifier".
  std::string model;    // The label model_name of all metrics.
  HttpOptions http;     // The HTTP server. If `listen` is empty: no server and no metrics.
  std::unique_ptr<Tracer> tracer = nullptr;  // Null: nothing is traced.
};

class ServiceTelemetry {
 public:
  explicit ServiceTelemetry(TelemetryOptions options);

  // Makes metrics; null if there are none.
  [[nodiscard]] const MetricMaker* metrics() const { return make_.has_value() ? &*make_ : nullptr; }
  // Null if nothing is traced.
  [[nodiscard]] Tracer* tracer() const { return options_.tracer.get(); }
  [[nodiscard]] Timeline& timeline() { return timeline_; }

  // Returns a thread-safe function that counts a refused connection.
  [[nodiscard]] std::function<void()> RefusalCounter() const;
  // Starts the HTTP server with /metrics and `routes`, if there is one. `refresh` sets gauges
  // before each scrape. What `routes` and `refresh` use must outlive the server.
  [[nodiscard]] absl::Status Serve(std::function<void()> refresh,
                                   std::vector<HttpRoute> routes = {});
  // Stops the server. The destructor does this too.
  void Stop() { server_.reset(); }

 private:
  // Counts the tracer's spans since the last call.
  void CountSpans();

  const TelemetryOptions options_;
  Timeline timeline_;
  std::optional<MetricPage> page_;
  std::optional<MetricMaker> make_;
  SpanCounts counted_;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace bastion

#endif  // BASTION_COMMON_TELEMETRY_SERVICE_TELEMETRY_H_
