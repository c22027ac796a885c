#include "orchestrator/api/call_trace.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/telemetry/wall_time.h"
#include "orchestrator/api/http_status.h"

namespace bastion {
namespace {

constexpr char kOperation[] = "text_completion";
// Characters that every system must accept. Longer ones are dropped.
constexpr size_t kMaxTraceState = 512;

// gRPC receives metadata with other bytes, but ends the process when it must send them.
bool IsUsable(absl::string_view tracestate) {
  return tracestate.size() <= kMaxTraceState &&
         std::all_of(tracestate.begin(), tracestate.end(), absl::ascii_isprint);
}

}  // namespace

CallTrace::CallTrace(Tracer* tracer, absl::string_view traceparent, absl::string_view tracestate)
    : tracer_(tracer) {
  if (tracer_ == nullptr) return;
  const std::optional<TraceContext> parent = ParseTraceparent(traceparent);
  span_.context = tracer_->Begin(parent);
  if (parent.has_value()) {
    span_.parent = parent->span;
    if (IsUsable(tracestate)) span_.trace_state = std::string(tracestate);
  }
  span_.kind = SpanKind::kServer;
  span_.name = kOperation;
}

CallTrace::~CallTrace() {
  if (!span_.context.sampled) return;
  span_.start = WallTime(began_);
  span_.end = WallTime(Clock::Real().Now());
  if (http_route_ != nullptr) {
    span_.Set("http.request.method", "POST");
    span_.Set("http.route", http_route_);
    span_.Set("http.response.status_code",
              int64_t{span_.status.ok() ? 200 : HttpStatusOf(span_.status)});
  } else {
    span_.Set("rpc.system.name", "grpc");
    span_.Set("rpc.method", "bastion.v1.GenerationService/Generate");
    span_.Set("rpc.response.status_code", absl::StatusCodeToString(span_.status.code()));
  }
  span_.Set("gen_ai.usage.output_tokens", output_tokens_);
  if (cached_tokens_.has_value()) {
    span_.Set("gen_ai.usage.cache_read.input_tokens", *cached_tokens_);
  }
  if (first_output_.has_value()) {
    span_.Set("gen_ai.response.time_to_first_chunk",
              absl::ToDoubleSeconds(*first_output_ - began_));
  }
  tracer_->Record(std::move(span_));
}

void CallTrace::SetRequests(absl::Span<const PreparedRequest> requests, const std::string& model) {
  if (!span_.context.sampled) return;
  const PreparedRequest& request = requests.front();  // All requests have its parameters.
  answers_per_prompt_ = request.answers;
  int64_t prompt_tokens = 0;
  for (const PreparedRequest& one : requests) {
    prompt_tokens += static_cast<int64_t>(one.decode.prompt.size());
  }
  const SamplingParams& sampling = request.decode.sampling;
  span_.name = absl::StrCat(kOperation, " ", model);
  span_.Set("gen_ai.operation.name", kOperation);
  span_.Set("gen_ai.provider.name", "bastion");
  span_.Set("gen_ai.request.model", model);
  span_.Set("gen_ai.request.max_tokens", int64_t{request.decode.max_tokens});
  span_.Set("gen_ai.request.temperature", double{sampling.temperature});
  span_.Set("gen_ai.request.choice.count", int64_t{request.answers});
  span_.Set("gen_ai.response.id", request.request_id);
  span_.Set("gen_ai.usage.input_tokens", prompt_tokens);
  span_.Set("bastion.policy", request.policy.text());
}

void CallTrace::AddSend(absl::Duration began, const OutputDelta& delta) {
  if (!span_.context.sampled) return;
  if (!first_output_.has_value()) first_output_ = Clock::Real().Now();
  output_tokens_ += static_cast<int64_t>(delta.tokens.size());
  if (delta.end.has_value()) {
    span_.Set("gen_ai.response.finish_reasons", FinishReasonName(delta.end->reason));
    // The further answers reuse the prompt that the first one prefilled.
    if (delta.answer % answers_per_prompt_ == 0) {
      cached_tokens_ = cached_tokens_.value_or(0) + delta.end->cached_prompt_tokens;
    }
  }
  Span send;
  send.context = NewSpan(span_.context);
  send.parent = span_.context.span;
  send.name = "send";
  send.start = WallTime(began);
  send.end = WallTime(Clock::Real().Now());
  send.SetMilliseconds("bastion.send.detokenize_ms", delta.detokenize);
  send.Set("bastion.send.tokens", static_cast<int64_t>(delta.tokens.size()));
  send.Set("bastion.send.cycles", static_cast<int64_t>(delta.cycles.size()));
  tracer_->Record(std::move(send));
}

}  // namespace bastion
