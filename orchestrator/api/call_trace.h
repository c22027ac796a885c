// CallTrace: the span of one Generate call, and the spans of its messages to the client. Attributes
// follow the semantic conventions of OpenTelemetry for generative AI. It never contains prompts or
// outputs. Thread-compatible: used by the call's thread.
#ifndef BASTION_ORCHESTRATOR_API_CALL_TRACE_H_
#define BASTION_ORCHESTRATOR_API_CALL_TRACE_H_

#include <optional>
#include <string>

#include "absl/types/span.h"
#include "common/base/clock.h"
#include "common/telemetry/tracer.h"
#include "orchestrator/schedule/prepared_request.h"
#include "orchestrator/schedule/request_stream.h"

namespace bastion {

class CallTrace {
 public:
  // Begins the span. `tracer` may be null: then nothing is traced. It must outlive this object.
  // `traceparent` and `tracestate` are the metadata of the call. If `traceparent` is empty or
  // invalid, a new trace begins and `tracestate` is ignored. So is a `tracestate` that is too long
  // or that metadata of a reply cannot have.
  CallTrace(Tracer* tracer, absl::string_view traceparent, absl::string_view tracestate);
  // Records the span.
  ~CallTrace();
  CallTrace(const CallTrace&) = delete;
  CallTrace& operator=(const CallTrace&) = delete;

  // The context of the span; not valid if nothing is traced.
  [[nodiscard]] const TraceContext& context() const { return span_.context; }
  // The caller's tracestate. Empty if there is none.
  [[nodiscard]] const std::string& trace_state() const { return span_.trace_state; }

  // The call came over HTTP, not gRPC. `route` is its path, a constant.
  void SetHttpRoute(const char* route) { http_route_ = route; }
  // The requests of the call, one per prompt; not empty.
  void SetRequests(absl::Span<const PreparedRequest> requests, const std::string& model);
  // A message that was written between `began` (on Clock::Real()) and now.
  void AddSend(absl::Duration began, const OutputDelta& delta);
  // Sets the call's final status.
  void SetStatus(const absl::Status& status) { span_.status = status; }

 private:
  Tracer* const tracer_;
  const absl::Duration began_ = Clock::Real().Now();
  const char* http_route_ = nullptr;
  Span span_;
  std::optional<absl::Duration> first_output_;
  int answers_per_prompt_ = 1;
  int64_t output_tokens_ = 0;
  // Those of the first answers that ended, one for each prompt.
  std::optional<int64_t> cached_tokens_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_API_CALL_TRACE_H_
