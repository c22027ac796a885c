// Span: one operation in a distributed trace, with the names of OpenTelemetry. Plain data.
#ifndef BASTION_COMMON_TELEMETRY_SPAN_H_
#define BASTION_COMMON_TELEMETRY_SPAN_H_

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/telemetry/trace_context.h"

namespace bastion {

using SpanAttribute = std::variant<bool, int64_t, double, std::string>;

enum class SpanKind { kInternal, kServer, kClient };

struct Span {
  TraceContext context;     // This span.
  uint64_t parent = 0;      // The span above it. 0: none.
  std::string trace_state;  // The caller's tracestate (W3C Trace Context). Empty: none.
  std::string name;
  SpanKind kind = SpanKind::kInternal;
  absl::Time start, end;
  std::vector<std::pair<const char*, SpanAttribute>> attributes;  // Names are string literals.
  std::vector<TraceContext> links;  // Spans of other traces that belong to the same work.
  absl::Status status;

  // Adds an attribute. `name` is a string literal.
  void Set(const char* name, bool value);
  void Set(const char* name, int64_t value);
  void Set(const char* name, double value);
  void Set(const char* name, std::string value);
  void Set(const char* name, const char* value) { Set(name, std::string(value)); }
  // Sets a duration in milliseconds.
  void SetMilliseconds(const char* name, absl::Duration duration) {
    Set(name, absl::ToDoubleMilliseconds(duration));
  }
};

}  // namespace bastion

#endif  // BASTION_COMMON_TELEMETRY_SPAN_H_
