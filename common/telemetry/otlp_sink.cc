#include "common/telemetry/otlp_sink.h"

#include <opentelemetry/exporters/otlp/otlp_grpc_exporter_factory.h>
#include <opentelemetry/sdk/common/exporter_utils.h>
#include <opentelemetry/sdk/instrumentationscope/instrumentation_scope.h>
#include <opentelemetry/sdk/resource/resource.h>
#include <opentelemetry/sdk/trace/exporter.h>
#include <opentelemetry/sdk/trace/recordable.h>
#include <opentelemetry/trace/span_context.h>
#include <opentelemetry/trace/trace_state.h>

#include <array>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/version.h"

namespace bastion {
namespace {

namespace otel = opentelemetry;
using Recordable = otel::sdk::trace::Recordable;

// Writes `value` in network byte order.
template <size_t kBytes>
void PutBigEndian(uint64_t value, std::array<uint8_t, kBytes>* bytes, size_t at) {
  for (int shift = 56; shift >= 0; shift -= 8) {
    (*bytes)[at++] = static_cast<uint8_t>(value >> shift);
  }
}

otel::trace::SpanId ToSpanId(uint64_t span) {
  std::array<uint8_t, 8> bytes = {};
  PutBigEndian(span, &bytes, 0);
  return otel::trace::SpanId(otel::nostd::span<const uint8_t, 8>(bytes.data(), bytes.size()));
}

otel::trace::SpanContext ToContext(const TraceContext& context, const std::string& state = "") {
  std::array<uint8_t, 16> trace = {};
  PutBigEndian(context.trace_high, &trace, 0);
  PutBigEndian(context.trace_low, &trace, 8);
  const uint8_t flags = context.sampled ? otel::trace::TraceFlags::kIsSampled : 0;
  return {
      otel::trace::TraceId(otel::nostd::span<const uint8_t, 16>(trace.data(), trace.size())),
      ToSpanId(context.span), otel::trace::TraceFlags(flags), /*is_remote=*/false,
      otel::trace::TraceState::FromHeader(otel::nostd::string_view(state.data(), state.size()))};
}

otel::trace::SpanKind ToKind(SpanKind kind) {
  switch (kind) {
    case SpanKind::kServer:
      return otel::trace::SpanKind::kServer;
    case SpanKind::kClient:
      return otel::trace::SpanKind::kClient;
    case SpanKind::kInternal:
      break;
  }
  return otel::trace::SpanKind::kInternal;
}

otel::common::AttributeValue ToValue(const SpanAttribute& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag;
  if (const auto* number = std::get_if<int64_t>(&value)) return *number;
  if (const auto* real = std::get_if<double>(&value)) return *real;
  const std::string& text = std::get<std::string>(value);
  return otel::nostd::string_view(text.data(), text.size());
}

class OtlpSink final : public SpanSink {
 public:
  explicit OtlpSink(const std::string& service)
      : resource_(otel::sdk::resource::Resource::Create(
            {{"service.name", service}, {"service.version", kVersion}})),
        scope_(otel::sdk::instrumentationscope::InstrumentationScope::Create("bastion", kVersion)),
        exporter_(otel::exporter::otlp::OtlpGrpcExporterFactory::Create()) {}

  absl::Status Export(absl::Span<const Span> spans) override {
    std::vector<std::unique_ptr<Recordable>> records;
    records.reserve(spans.size());
    for (const Span& span : spans) records.push_back(ToRecord(span));
    const auto result = exporter_->Export(
        otel::nostd::span<std::unique_ptr<Recordable>>(records.data(), records.size()));
    if (result == otel::sdk::common::ExportResult::kSuccess) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat("the collector did not accept the spans (result ",
                                               static_cast<int>(result),
                                               "); check OTEL_EXPORTER_OTLP_ENDPOINT"));
  }

 private:
  std::unique_ptr<Recordable> ToRecord(const Span& span) {
    std::unique_ptr<Recordable> record = exporter_->MakeRecordable();
    record->SetIdentity(ToContext(span.context, span.trace_state), ToSpanId(span.parent));
    record->SetResource(resource_);
    record->SetInstrumentationScope(*scope_);
    record->SetName(span.name);
    record->SetSpanKind(ToKind(span.kind));
    record->SetStartTime(otel::common::SystemTimestamp(absl::ToChronoTime(span.start)));
    record->SetDuration(absl::ToChronoNanoseconds(span.end - span.start));
    for (const auto& [name, value] : span.attributes) record->SetAttribute(name, ToValue(value));
    const std::map<std::string, std::string> none;
    for (const TraceContext& link : span.links) {
      record->AddLink(ToContext(link),
                      otel::common::KeyValueIterableView<std::map<std::string, std::string>>(none));
    }
    if (!span.status.ok()) {
      record->SetStatus(
          otel::trace::StatusCode::kError,
          otel::nostd::string_view(span.status.message().data(), span.status.message().size()));
    }
    return record;
  }

  const otel::sdk::resource::Resource resource_;
  const std::unique_ptr<otel::sdk::instrumentationscope::InstrumentationScope> scope_;
  const std::unique_ptr<otel::sdk::trace::SpanExporter> exporter_;
};

}  // namespace

std::unique_ptr<SpanSink> MakeOtlpSink(const std::string& service) {
  return std::make_unique<OtlpSink>(service);
}

}  // namespace bastion
