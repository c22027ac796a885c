#include "common/telemetry/service_telemetry.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"

namespace bastion {

ServiceTelemetry::ServiceTelemetry(TelemetryOptions options) : options_(std::move(options)) {
  if (options_.http.listen.empty()) return;
  page_.emplace(options_.service);
  make_.emplace(&page_->registry(), prometheus::Labels{{"model_name", options_.model}});
}

std::function<void()> ServiceTelemetry::RefusalCounter() const {
  if (!make_.has_value()) return {};
  prometheus::Counter& refused = make_->Counter("bastion_connections_refused_total",
                                                "Connections that were closed because of a limit.");
  return [&refused] { refused.Increment(); };
}

absl::Status ServiceTelemetry::Serve(std::function<void()> refresh, std::vector<HttpRoute> routes) {
  if (!page_.has_value()) return absl::OkStatus();
  page_->SetRefresh([this, refresh = std::move(refresh)] {
    refresh();
    CountSpans();
  });
  routes.push_back(page_->Route());
  ASSIGN_OR_RETURN(server_, HttpServer::Start(options_.http, std::move(routes)));
  LOG(INFO) << "metrics: port " << server_->port() << ", path /metrics";
  return absl::OkStatus();
}

void ServiceTelemetry::CountSpans() {
  if (options_.tracer == nullptr) return;
  const SpanCounts now = options_.tracer->counts();
  const auto add = [&](const char* result, int64_t count, int64_t before) {
    make_
        ->Counter("bastion_trace_spans_total", "Finished spans, by what became of them.",
                  {{"result", result}})
        .Increment(static_cast<double>(count - before));
  };
  add("exported", now.exported, counted_.exported);
  add("dropped", now.dropped, counted_.dropped);
  add("failed", now.failed, counted_.failed);
  counted_ = now;
}

}  // namespace bastion
