#include "orchestrator/observe/serving_trace.h"

#include <string>
#include <utility>

#include "common/telemetry/wall_time.h"
#include "orchestrator/observe/named_stages.h"
#include "orchestrator/schedule/live_request.h"

namespace bastion {
namespace {

// Sets the part `share` of each stage that took time.
void SetStages(const StageTimes& stages, double share, Span* span) {
  for (const NamedStage& stage : kStages) {
    const absl::Duration time = stages.*stage.time;
    if (time != absl::ZeroDuration()) span->SetMilliseconds(stage.attribute, share * time);
  }
}

void SetCycle(const CycleSummary& cycle, Span* span) {
  span->start = WallTime(cycle.began);
  span->end = WallTime(cycle.ended);
  span->Set("bastion.cycle.sequences", int64_t{cycle.size.sequences});
  span->Set("bastion.cycle.rows", int64_t{cycle.size.rows});
  span->Set("bastion.cycle.prompt_rows", int64_t{cycle.size.prompts.rows});
  span->Set("bastion.cycle.drafted", cycle.drafted);
  span->Set("bastion.cycle.rested", cycle.rested);
  span->SetMilliseconds("bastion.cycle.predicted_verify_ms", cycle.predicted_verify);
  if (!cycle.draft_status.ok()) {
    span->Set("bastion.draft.error", std::string(cycle.draft_status.message()));
  }
}

}  // namespace

TraceContext ServingTrace::OnCycleBegin(const ServedCycle& requests) {
  cycle_ = {};
  cycle_parent_ = 0;
  const LiveRequest* sampled = nullptr;
  for (const LiveRequest* request : requests.decoding) {
    if (request->trace().sampled) sampled = request;
  }
  for (const ServedChunk& chunk : requests.chunks) {
    if (chunk.request->trace().sampled) sampled = chunk.request;
  }
  if (sampled == nullptr) return cycle_;
  if (requests.decoding.size() + requests.chunks.size() == 1) {
    cycle_ = NewSpan(sampled->trace());
    cycle_parent_ = sampled->trace().span;
  } else {
    cycle_ = NewTrace(/*sampled=*/true);
  }
  return cycle_;
}

void ServingTrace::OnCycle(const CycleSummary& cycle, const ServedCycle& requests) {
  if (!cycle_.valid()) return;
  std::vector<Span> spans;
  Span whole;
  whole.context = cycle_;
  whole.parent = cycle_parent_;
  const bool is_alone = cycle_parent_ != 0;
  for (const LiveRequest* request : requests.decoding) {
    if (!request->trace().sampled) continue;
    Span own = RequestCycle(cycle, *request);
    if (is_alone) {
      whole.attributes = std::move(own.attributes);
      continue;
    }
    own.links.push_back(cycle_);
    whole.links.push_back(own.context);
    spans.push_back(std::move(own));
  }
  for (const auto& [request, tokens] : requests.chunks) {
    if (!request->trace().sampled) continue;
    if (is_alone) {
      whole.Set("bastion.prefill.tokens", int64_t{tokens});
      continue;
    }
    Span own;
    own.context = NewSpan(request->trace());
    own.parent = request->trace().span;
    own.name = "prefill";
    own.start = WallTime(cycle.began);
    own.end = WallTime(cycle.ended);
    own.Set("bastion.prefill.tokens", int64_t{tokens});
    SetStages(cycle.stages, static_cast<double>(tokens) / cycle.size.rows, &own);
    own.links.push_back(cycle_);
    whole.links.push_back(own.context);
    spans.push_back(std::move(own));
  }
  whole.name = is_alone && requests.decoding.empty() ? "prefill" : "cycle";
  SetCycle(cycle, &whole);
  if (!is_alone || requests.decoding.empty()) SetStages(cycle.stages, 1, &whole);
  if (tracer_.detail()) AddStages(cycle, &spans);
  spans.push_back(std::move(whole));
  tracer_.Record(std::move(spans));
}

Span ServingTrace::RequestCycle(const CycleSummary& cycle, const LiveRequest& request) {
  const CycleRecord& record = request.sequence().cycles().back();
  Span span;
  span.context = NewSpan(request.trace());
  span.parent = request.trace().span;
  span.name = "cycle";
  span.start = WallTime(cycle.began);
  span.end = WallTime(cycle.ended);
  span.Set("bastion.cycle.nodes", int64_t{record.nodes});
  span.Set("bastion.cycle.accepted", int64_t{record.accepted});
  span.Set("bastion.cycle.committed_length", int64_t{record.committed_length});
  span.Set("bastion.cycle.budget_reason", std::string(BudgetReasonName(record.reason)));
  span.Set("bastion.cycle.share", record.share);
  SetStages(cycle.stages, record.share, &span);
  return span;
}

void ServingTrace::AddStages(const CycleSummary& cycle, std::vector<Span>* spans) const {
  for (const CycleSummary::Part& part : cycle.parts()) {
    if (part.ended <= part.began) continue;
    Span span;
    span.context = NewSpan(cycle_);
    span.parent = cycle_.span;
    span.name = part.name;
    span.start = WallTime(part.began);
    span.end = WallTime(part.ended);
    spans->push_back(std::move(span));
  }
}

void ServingTrace::OnEnd(const LiveRequest& request, const absl::Status&) {
  if (!request.trace().sampled) return;
  const RequestTimes& times = request.times();
  const auto record = [&](const char* name, absl::Duration from, absl::Duration spent) {
    Span span;
    span.context = NewSpan(request.trace());
    span.parent = request.trace().span;
    span.name = name;
    span.start = WallTime(from);
    span.end = span.start + spent;
    tracer_.Record(std::move(span));
  };
  record("queue", request.arrived(), request.admitted() ? times.queue : request.age());
}

}  // namespace bastion
