#include "drafter_service/serve/drafter_telemetry.h"

#include <optional>
#include <vector>

#include "common/base/clock.h"
#include "common/telemetry/stage_spans.h"

namespace bastion::drafter {
namespace {

// The parts of a call after its queue, in the order in which they run.
struct Phase {
  const char* name;
  const char* attribute;
  absl::Duration DraftTrace::*time;
};
constexpr Phase kPhases[] = {
    {"features", "bastion.draft.features_ms", &DraftTrace::features},
    {"context", "bastion.draft.context_ms", &DraftTrace::context},
    {"forward", "bastion.draft.forward_ms", &DraftTrace::forward},
    {"candidates", "bastion.draft.candidates_ms", &DraftTrace::candidates},
};

// An arrival that takes longer has drafted.
constexpr absl::Duration kShortArrival = absl::Microseconds(20);

}  // namespace

struct DrafterTelemetry::Metrics {
  explicit Metrics(const MetricMaker& make)
      : calls(Outcome(make, "OK")),
        failures(Outcome(make, "error")),
        queue(Duration(make, "queue")),
        drafts(make.Counter("bastion_drafter_drafts_total", "Drafts that were requested.")),
        ahead(make.Counter("bastion_drafter_drafts_ahead_total",
                           "Those drafts that were ready when they were requested.")),
        context_tokens(make.Counter("bastion_drafter_context_tokens_total",
                                    "Tokens that were added to contexts.")),
        sequences(make.Gauge("bastion_drafter_sequences", "Open sequences.")) {
    for (const Phase& phase : kPhases) phases.push_back(&Duration(make, phase.name));
  }

  static prometheus::Counter& Outcome(const MetricMaker& make, const char* outcome) {
    return make.Counter("bastion_drafter_calls_total", "Expand calls.", {{"outcome", outcome}});
  }
  static prometheus::Histogram& Duration(const MetricMaker& make, const char* phase) {
    return make.Histogram("bastion_drafter_phase_duration_seconds",
                          "Duration of a part of an Expand call.", CycleSeconds(),
                          {{"phase", phase}});
  }

  prometheus::Counter &calls, &failures;
  prometheus::Histogram& queue;
  std::vector<prometheus::Histogram*> phases;  // In the order of kPhases.
  prometheus::Counter &drafts, &ahead, &context_tokens;
  prometheus::Gauge& sequences;
};

DrafterTelemetry::DrafterTelemetry(ServiceTelemetry* telemetry)
    : timeline_(telemetry->timeline()),
      metrics_(telemetry->metrics() == nullptr ? nullptr
                                               : std::make_unique<Metrics>(*telemetry->metrics())),
      tracer_(telemetry->tracer()) {}

DrafterTelemetry::~DrafterTelemetry() = default;

void DrafterTelemetry::RecordExpand(const MeasuredCall& call, const absl::Status& status,
                                    const DraftTrace& trace) {
  if (status.ok()) {
    CallSlices slices("engine", "expand", call.began);
    for (const Phase& phase : kPhases) slices.AddPart(phase.name, trace.*phase.time);
    timeline_.Add(slices.Finish(Clock::Real().Now()));
  }
  if (metrics_ != nullptr) Count(call, status, trace);
  if (tracer_ != nullptr) Trace(call, status, trace);
}

void DrafterTelemetry::Count(const MeasuredCall& call, const absl::Status& status,
                             const DraftTrace& trace) {
  metrics_->queue.Observe(absl::ToDoubleSeconds(call.began - call.arrived));
  if (!status.ok()) {
    metrics_->failures.Increment();
    return;
  }
  metrics_->calls.Increment();
  metrics_->drafts.Increment(trace.drafts);
  metrics_->ahead.Increment(trace.ahead);
  metrics_->context_tokens.Increment(trace.context_tokens);
  for (size_t i = 0; i < metrics_->phases.size(); ++i) {
    metrics_->phases[i]->Observe(absl::ToDoubleSeconds(trace.*kPhases[i].time));
  }
}

void DrafterTelemetry::Trace(const MeasuredCall& call, const absl::Status& status,
                             const DraftTrace& trace) {
  const std::optional<TraceContext> cycle = ParseTraceparent(call.traceparent);
  if (!cycle.has_value() || !cycle->sampled) return;
  StageSpans spans(tracer_, *cycle, "expand", call.arrived);
  spans.call().status = status;
  spans.AddPart("queue", "bastion.draft.queue_ms", call.began - call.arrived);
  if (status.ok()) {
    spans.call().Set("bastion.draft.drafts", int64_t{trace.drafts});
    spans.call().Set("bastion.draft.ahead", int64_t{trace.ahead});
    spans.call().Set("bastion.draft.context_tokens", int64_t{trace.context_tokens});
    for (const Phase& phase : kPhases) {
      spans.AddPart(phase.name, phase.attribute, trace.*phase.time);
    }
  }
  spans.Record();
}

void DrafterTelemetry::RecordArrival(absl::Duration began, int context_tokens) {
  const absl::Duration spent = Clock::Real().Now() - began;
  if (spent > kShortArrival) timeline_.Add({{"engine", "draft ahead", began, spent}});
  if (metrics_ != nullptr) metrics_->context_tokens.Increment(context_tokens);
}

void DrafterTelemetry::RecordPiece(absl::Duration began, int context_tokens) {
  timeline_.Add({{"engine", "catch up", began, Clock::Real().Now() - began}});
  if (metrics_ != nullptr) metrics_->context_tokens.Increment(context_tokens);
}

void DrafterTelemetry::Refresh(int sequences) {
  if (metrics_ != nullptr) metrics_->sequences.Set(sequences);
}

}  // namespace bastion::drafter
