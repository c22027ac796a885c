// StageSpans: the span of a call that consists of consecutive parts. The duration of a part is an
// attribute of the call's span, in milliseconds. In detail mode, a part is also a span of its own.
// Thread-compatible.
#ifndef BASTION_COMMON_TELEMETRY_STAGE_SPANS_H_
#define BASTION_COMMON_TELEMETRY_STAGE_SPANS_H_

#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/telemetry/tracer.h"
#include "common/telemetry/wall_time.h"

namespace bastion {

class StageSpans {
 public:
  // A call of another service, whose context is `parent`. `start`: when it began, on Clock::Real().
  StageSpans(Tracer* tracer, const TraceContext& parent, const char* name, absl::Duration start)
      : tracer_(*tracer), at_(start), spans_(1) {
    Span& span = spans_[0];
    span.context = NewSpan(parent);
    span.parent = parent.span;
    span.name = name;
    span.kind = SpanKind::kServer;
    span.start = WallTime(start);
  }

  // Valid until the next AddPart.
  [[nodiscard]] Span& call() { return spans_[0]; }

  // The next part took `spent`. `attribute` is a string literal.
  void AddPart(const char* name, const char* attribute, absl::Duration spent) {
    if (spent <= absl::ZeroDuration()) return;
    spans_[0].SetMilliseconds(attribute, spent);
    const absl::Duration from = std::exchange(at_, at_ + spent);
    if (!tracer_.detail()) return;
    Span& part = spans_.emplace_back();
    part.context = NewSpan(spans_[0].context);
    part.parent = spans_[0].context.span;
    part.name = name;
    part.start = WallTime(from);
    part.end = WallTime(at_);
  }

  // The call has ended. Call this once.
  void Record() {
    spans_[0].end = WallTime(Clock::Real().Now());
    tracer_.Record(std::move(spans_));
  }

 private:
  Tracer& tracer_;
  absl::Duration at_;  // The end of the last part.
  std::vector<Span> spans_;
};

}  // namespace bastion

#endif  // BASTION_COMMON_TELEMETRY_STAGE_SPANS_H_
