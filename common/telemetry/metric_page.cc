#include "common/telemetry/metric_page.h"

#include <prometheus/gauge.h>
#include <prometheus/text_serializer.h>

#include "common/base/version.h"

namespace bastion {

MetricPage::MetricPage(const std::string& service) {
  prometheus::BuildGauge()
      .Name("bastion_build_info")
      .Help("1. The labels name the service and its version.")
      .Register(registry_)
      .Add({{"service", service}, {"version", kVersion}})
      .Set(1);
}

HttpRoute MetricPage::Route() {
  const auto serve = [this](const HttpRequest&, HttpResponse& response) {
    std::string text;
    {
      MutexLock lock(&mutex_);
      refresh_();
      text = prometheus::TextSerializer().Serialize(registry_.Collect());
    }
    response.Send(200, "text/plain; version=0.0.4; charset=utf-8", text);
  };
  return {.method = "GET", .path = "/metrics", .handler = serve, .reserved = true};
}

}  // namespace bastion
