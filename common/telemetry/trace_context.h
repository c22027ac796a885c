// TraceContext: identifies a span of a distributed trace across processes, in the format of W3C
// Trace Context (https://www.w3.org/TR/trace-context/). Plain data; the functions are thread-safe.
#ifndef BASTION_COMMON_TELEMETRY_TRACE_CONTEXT_H_
#define BASTION_COMMON_TELEMETRY_TRACE_CONTEXT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace bastion {

struct TraceContext {
  uint64_t trace_high = 0, trace_low = 0;  // The trace's 128-bit id. Not 0 if valid.
  uint64_t span = 0;                       // Not 0 if valid.
  bool sampled = false;                    // The spans of this trace are recorded.

  [[nodiscard]] bool valid() const { return (trace_high | trace_low) != 0 && span != 0; }
  [[nodiscard]] bool same_trace(const TraceContext& other) const {
    return trace_high == other.trace_high && trace_low == other.trace_low;
  }
  friend bool operator==(const TraceContext&, const TraceContext&) = default;
};

// The key of the header, gRPC metadata, or message field.
inline constexpr char kTraceparentKey[] = "traceparent";
// The key of what tracing systems add to a traceparent. It is passed on unchanged.
inline constexpr char kTracestateKey[] = "tracestate";

// Parses the value of a traceparent. nullopt if it is not valid: then a new trace begins.
[[nodiscard]] std::optional<TraceContext> ParseTraceparent(absl::string_view text);
// The value of a traceparent. Empty for a context that is not valid.
[[nodiscard]] std::string FormatTraceparent(const TraceContext& context);

// A context with a random trace and span.
[[nodiscard]] TraceContext NewTrace(bool sampled);
// A new span of the same trace.
[[nodiscard]] TraceContext NewSpan(const TraceContext& parent);

// The context of what the current thread does, for code that sends messages to other services.
// Not valid if nothing is traced.
[[nodiscard]] const TraceContext& CurrentTrace();

// Sets CurrentTrace() during its lifetime.
class TraceScope {
 public:
  explicit TraceScope(const TraceContext& context);
  ~TraceScope();
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 private:
  const TraceContext outer_;
};

}  // namespace bastion

#endif  // BASTION_COMMON_TELEMETRY_TRACE_CONTEXT_H_
