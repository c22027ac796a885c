#include "common/telemetry/flags.h"

#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/status.h"
#include "common/telemetry/otlp_sink.h"

ABSL_FLAG(
    std::string, http_listen, "",
    "Address for HTTP, host:port: metrics under /metrics, and the orchestrator's OpenAI-compatible "
    "API under /v1 and its console under /console. --tls_cert and --access_file apply to it. "
    "Without them, choose an address that only trusted clients can reach. Empty: no HTTP, and no "
    "metrics are collected.");
ABSL_FLAG(std::vector<std::string>, http_hosts, {},
          "Names under which HTTP clients reach --http_listen, e.g. bastion.example.com, separated "
          "by commas; * allows all. Requests to other names are refused, because a page of "
          "another site may have sent them. IP addresses and localhost are always allowed.");
ABSL_FLAG(
    int, http_max_per_address, 0,
    "Maximum number of HTTP connections from one IP address at a time, or from one /64 network "
    "of IPv6. Addresses of this host and of --http_proxies have no limit. 0: no limit.");
ABSL_FLAG(std::vector<std::string>, http_proxies, {},
          "IP addresses and networks of trusted proxies before --http_listen, e.g. 10.0.0.0/8, "
          "separated by commas. --http_max_per_address does not apply to them.");
ABSL_FLAG(
    absl::Duration, http_idle_timeout, absl::Seconds(120),
    "How long an HTTP connection waits for the next request. It should be longer than proxies "
    "before --http_listen keep idle connections. If there are too many connections, the one "
    "that has been idle longest makes room.");
ABSL_FLAG(bool, trace_detail, false,
          "Record the stages of each cycle and the parts of each call as spans of their own. Needs "
          "OTEL_EXPORTER_OTLP_ENDPOINT.");

namespace bastion {
namespace {

// The value of an environment variable; empty if it is not set.
std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// A positive number, or `standard` if the variable is not set.
absl::StatusOr<int64_t> PositiveVariable(const char* name, int64_t standard) {
  const std::string text = Variable(name);
  if (text.empty()) return standard;
  int64_t value = 0;
  if (absl::SimpleAtoi(text, &value) && value > 0) return value;
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is \"", text, "\"; use a positive number"));
}

bool IsOn() {
  if (absl::EqualsIgnoreCase(Variable("OTEL_SDK_DISABLED"), "true")) return false;
  const std::string exporter = Variable("OTEL_TRACES_EXPORTER");
  if (!exporter.empty()) return exporter == "otlp";
  return !Variable("OTEL_EXPORTER_OTLP_ENDPOINT").empty() ||
         !Variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").empty();
}

// The tracer that the environment asks for; null if tracing is off.
absl::StatusOr<std::unique_ptr<Tracer>> MakeTracer(const std::string& service, bool detail) {
  if (!IsOn()) return nullptr;
  TracerOptions options;
  options.detail = detail;
  ASSIGN_OR_RETURN(options.sampler, Sampler::Parse(Variable("OTEL_TRACES_SAMPLER"),
                                                   Variable("OTEL_TRACES_SAMPLER_ARG")));
  ASSIGN_OR_RETURN(options.queue, PositiveVariable("OTEL_BSP_MAX_QUEUE_SIZE",
                                                   static_cast<int64_t>(options.queue)));
  ASSIGN_OR_RETURN(options.batch, PositiveVariable("OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
                                                   static_cast<int64_t>(options.batch)));
  ASSIGN_OR_RETURN(
      const int64_t delay,
      PositiveVariable("OTEL_BSP_SCHEDULE_DELAY", absl::ToInt64Milliseconds(options.interval)));
  options.interval = absl::Milliseconds(delay);
  const std::string name = Variable("OTEL_SERVICE_NAME");
  return std::make_unique<Tracer>(options, MakeOtlpSink(name.empty() ? service : name));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ServiceTelemetry>> MakeTelemetry(const std::string& service,
                                                                const std::string& model,
                                                                const wire::Security& security,
                                                                HttpOptions http) {
  const std::string address = absl::GetFlag(FLAGS_http_listen);
  if (!address.empty()) {
    RETURN_IF_ERROR(security.CheckAddress(address));
  }
  http.listen = address;
  http.hosts = absl::GetFlag(FLAGS_http_hosts);
  http.max_connections_per_address = absl::GetFlag(FLAGS_http_max_per_address);
  if (http.max_connections_per_address < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--http_max_per_address is ", http.max_connections_per_address, "; it must be at least 0"));
  }
  http.trusted_addresses = absl::GetFlag(FLAGS_http_proxies);
  http.timeouts.idle = absl::GetFlag(FLAGS_http_idle_timeout);
  if (http.timeouts.idle <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat("--http_idle_timeout is ",
                                                   absl::FormatDuration(http.timeouts.idle),
                                                   "; it must be above 0"));
  }
  http.tls = security.tls();
  http.access = security.access();
  TelemetryOptions options = {.service = service, .model = model, .http = std::move(http)};
  ASSIGN_OR_RETURN(options.tracer, MakeTracer(absl::StrCat("bastion-", service),
                                              absl::GetFlag(FLAGS_trace_detail)));
  return std::make_unique<ServiceTelemetry>(std::move(options));
}

}  // namespace bastion
