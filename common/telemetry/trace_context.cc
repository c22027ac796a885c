#include "common/telemetry/trace_context.h"

#include <random>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace bastion {
namespace {

// The lengths of "00", the trace's id, the span's id and the flags, and their positions in
// "00-TRACE-SPAN-FLAGS".
constexpr size_t kTraceAt = 3, kSpanAt = 36, kFlagsAt = 53, kLength = 55;

thread_local TraceContext current;

// A number of lower-case hexadecimal digits.
std::optional<uint64_t> ParseHex(absl::string_view digits) {
  uint64_t value = 0;
  for (const char c : digits) {
    if (!absl::ascii_isdigit(c) && (c < 'a' || c > 'f')) return std::nullopt;
    value = value << 4 | static_cast<uint64_t>(absl::ascii_isdigit(c) ? c - '0' : c - 'a' + 10);
  }
  return value;
}

// A random number that is not 0.
uint64_t NewId() {
  thread_local std::mt19937_64 generator{std::random_device{}() +
                                         (uint64_t{std::random_device{}()} << 32)};
  for (;;) {
    if (const uint64_t id = generator(); id != 0) return id;
  }
}

}  // namespace

std::optional<TraceContext> ParseTraceparent(absl::string_view text) {
  // A later version may append fields after another dash. Version ff is invalid.
  if (text.size() < kLength) return std::nullopt;
  const auto version = ParseHex(text.substr(0, 2));
  if (!version || *version == 0xff) return std::nullopt;
  if (text.size() > kLength && (*version == 0 || text[kLength] != '-')) return std::nullopt;
  if (text[kTraceAt - 1] != '-' || text[kSpanAt - 1] != '-' || text[kFlagsAt - 1] != '-') {
    return std::nullopt;
  }
  const auto high = ParseHex(text.substr(kTraceAt, 16));
  const auto low = ParseHex(text.substr(kTraceAt + 16, 16));
  const auto span = ParseHex(text.substr(kSpanAt, 16));
  const auto flags = ParseHex(text.substr(kFlagsAt, 2));
  if (!high || !low || !span || !flags) return std::nullopt;
  const TraceContext context = {*high, *low, *span, (*flags & 1) != 0};
  if (!context.valid()) return std::nullopt;
  return context;
}

std::string FormatTraceparent(const TraceContext& context) {
  if (!context.valid()) return "";
  return absl::StrCat("00-", absl::Hex(context.trace_high, absl::kZeroPad16),
                      absl::Hex(context.trace_low, absl::kZeroPad16), "-",
                      absl::Hex(context.span, absl::kZeroPad16), context.sampled ? "-01" : "-00");
}

TraceContext NewTrace(bool sampled) { return {NewId(), NewId(), NewId(), sampled}; }

TraceContext NewSpan(const TraceContext& parent) {
  TraceContext context = parent;
  context.span = NewId();
  return context;
}

const TraceContext& CurrentTrace() { return current; }

TraceScope::TraceScope(const TraceContext& context) : outer_(current) { current = context; }
TraceScope::~TraceScope() { current = outer_; }

}  // namespace bastion
