// OtlpSink: sends spans to an OpenTelemetry Collector over gRPC. The library reads the standard
// variables OTEL_EXPORTER_OTLP_* (address, headers, timeout, certificates) and
// OTEL_RESOURCE_ATTRIBUTES itself.
#ifndef BASTION_COMMON_TELEMETRY_OTLP_SINK_H_
#define BASTION_COMMON_TELEMETRY_OTLP_SINK_H_

#include <memory>
#include <string>

#include "common/telemetry/tracer.h"

namespace bastion {

// `service`: the resource attribute service.name.
[[nodiscard]] std::unique_ptr<SpanSink> MakeOtlpSink(const std::string& service);

}  // namespace bastion

#endif  // BASTION_COMMON_TELEMETRY_OTLP_SINK_H_
