// The telemetry settings of every service: the flags --http_listen, --http_hosts,
// --http_max_per_address, --http_proxies, --http_idle_timeout and --trace_detail, and the standard
// environment variables of OpenTelemetry that concern tracing:
//
//   OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT
//       Where spans go. Tracing is on if one of them is set, or if OTEL_TRACES_EXPORTER is otlp.
//   OTEL_TRACES_EXPORTER=none, OTEL_SDK_DISABLED=true
//       Turn tracing off.
//   OTEL_SERVICE_NAME
//       Names the service in all spans. Default: "bastion-" and the name of the service.
//   OTEL_TRACES_SAMPLER, OTEL_TRACES_SAMPLER_ARG
//       See sampler.h.
//   OTEL_BSP_MAX_QUEUE_SIZE, OTEL_BSP_MAX_EXPORT_BATCH_SIZE, OTEL_BSP_SCHEDULE_DELAY
//       TracerOptions::queue, batch and interval (in milliseconds).
//
// otlp_sink.h names those that the library reads.
#ifndef BASTION_COMMON_TELEMETRY_FLAGS_H_
#define BASTION_COMMON_TELEMETRY_FLAGS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/telemetry/service_telemetry.h"
#include "common/wire/security.h"

namespace bastion {

// Makes the telemetry that the flags and the environment ask for. `service` is "orchestrator",
// "drafter" or "verifier". `security` applies to HTTP and must outlive the result. `http` has the
// settings of the HTTP server that are not flags. INVALID_ARGUMENT names a variable with an invalid
// value.
[[nodiscard]] absl::StatusOr<std::unique_ptr<ServiceTelemetry>> MakeTelemetry(
    const std::string& service, const std::string& model, const wire::Security& security,
    HttpOptions http = {});

}  // namespace bastion

#endif  // BASTION_COMMON_TELEMETRY_FLAGS_H_
