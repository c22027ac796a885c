#include "verifier_service/serve/verifier_telemetry.h"

#include <optional>
#include <vector>

#include "common/base/clock.h"
#include "common/telemetry/stage_spans.h"

namespace bastion::verifier {
namespace {

// The parts of a call, in the order in which they run.
struct Phase {
  const char* name;
  const char* attribute;
  absl::Duration TimingTrace::*time;
};
constexpr Phase kPhases[] = {
    {"layout", "bastion.verify.layout_ms", &TimingTrace::layout},
    {"forward", "bastion.verify.forward_ms", &TimingTrace::forward},
    {"accept", "bastion.verify.accept_ms", &TimingTrace::accept},
    {"commit", "bastion.verify.commit_ms", &TimingTrace::commit},
    {"feature_export", "bastion.verify.feature_export_ms", &TimingTrace::feature_export},
    {"audit", "bastion.verify.audit_ms", &TimingTrace::audit},
};

}  // namespace

struct VerifierTelemetry::Metrics {
  explicit Metrics(const MetricMaker& make)
      : calls(Outcome(make, "OK")),
        failures(Outcome(make, "error")),
        queue(Duration(make, "queue")),
        rows(make.Counter("bastion_verifier_rows_total",
                          "Rows of all forwards: roots, nodes and prompt tokens.")),
        prefix_tokens(make.Counter("bastion_verifier_prefix_cache_queries_total",
                                   "Tokens with which sequences began.")),
        reused_tokens(make.Counter("bastion_verifier_prefix_cache_hits_total",
                                   "Those tokens that were in the cache.")),
        sequences(make.Gauge("bastion_verifier_sequences", "Open sequences.")),
        kv_usage(make.Gauge("bastion_verifier_kv_cache_usage_ratio",
                            "Used share of the KV cache, 0 to 1.")),
        kv_free(make.Gauge("bastion_verifier_kv_cache_free_tokens",
                           "Tokens that fit into the free pages of the KV cache.")),
        audited(make.Gauge("bastion_verifier_audited_tokens", "Tokens that the audit compared.")),
        mismatches(make.Gauge("bastion_verifier_audit_mismatches",
                              "Audited tokens that differ from plain decoding.")) {
    for (const Phase& phase : kPhases) phases.push_back(&Duration(make, phase.name));
  }

  static prometheus::Counter& Outcome(const MetricMaker& make, const char* outcome) {
    return make.Counter("bastion_verifier_calls_total", "Verify calls.", {{"outcome", outcome}});
  }
  static prometheus::Histogram& Duration(const MetricMaker& make, const char* phase) {
    return make.Histogram("bastion_verifier_phase_duration_seconds",
                          "Duration of a part of a verify call.", CycleSeconds(),
                          {{"phase", phase}});
  }

  prometheus::Counter &calls, &failures;
  prometheus::Histogram& queue;
  std::vector<prometheus::Histogram*> phases;  // In the order of kPhases.
  prometheus::Counter &rows, &prefix_tokens, &reused_tokens;
  prometheus::Gauge &sequences, &kv_usage, &kv_free, &audited, &mismatches;
};

VerifierTelemetry::VerifierTelemetry(ServiceTelemetry* telemetry)
    : timeline_(telemetry->timeline()),
      metrics_(telemetry->metrics() == nullptr ? nullptr
                                               : std::make_unique<Metrics>(*telemetry->metrics())),
      tracer_(telemetry->tracer()) {}

VerifierTelemetry::~VerifierTelemetry() = default;

void VerifierTelemetry::RecordVerify(const MeasuredCall& call,
                                     const absl::StatusOr<VerifyResult>& result) {
  if (result.ok()) {
    CallSlices slices("engine", "verify", call.began);
    slices.set_rows(result->trace.rows);
    for (const Phase& phase : kPhases) slices.AddPart(phase.name, result->trace.*phase.time);
    timeline_.Add(slices.Finish(Clock::Real().Now()));
  }
  if (metrics_ != nullptr) Count(result, call.began - call.arrived);
  if (tracer_ != nullptr) Trace(call, result);
}

void VerifierTelemetry::Count(const absl::StatusOr<VerifyResult>& result, absl::Duration queue) {
  metrics_->queue.Observe(absl::ToDoubleSeconds(queue));
  if (!result.ok()) {
    metrics_->failures.Increment();
    return;
  }
  metrics_->calls.Increment();
  metrics_->rows.Increment(result->trace.rows);
  for (size_t i = 0; i < metrics_->phases.size(); ++i) {
    metrics_->phases[i]->Observe(absl::ToDoubleSeconds(result->trace.*kPhases[i].time));
  }
  metrics_->audited.Set(static_cast<double>(result->audit.tokens));
  metrics_->mismatches.Set(static_cast<double>(result->audit.mismatches));
}

void VerifierTelemetry::Trace(const MeasuredCall& call,
                              const absl::StatusOr<VerifyResult>& result) {
  const std::optional<TraceContext> cycle = ParseTraceparent(call.traceparent);
  if (!cycle.has_value() || !cycle->sampled) return;
  StageSpans spans(tracer_, *cycle, "verify", call.arrived);
  spans.call().status = result.status();
  spans.call().Set("bastion.verify.trees", static_cast<int64_t>(call.trees));
  spans.call().Set("bastion.verify.prompts", static_cast<int64_t>(call.prompts));
  spans.AddPart("queue", "bastion.verify.queue_ms", call.began - call.arrived);
  if (result.ok()) {
    spans.call().Set("bastion.verify.rows", int64_t{result->trace.rows});
    for (const Phase& phase : kPhases) {
      spans.AddPart(phase.name, phase.attribute, result->trace.*phase.time);
    }
  }
  spans.Record();
}

void VerifierTelemetry::RecordPrefix(int tokens, int reused) {
  if (metrics_ == nullptr) return;
  metrics_->prefix_tokens.Increment(tokens);
  metrics_->reused_tokens.Increment(reused);
}

void VerifierTelemetry::Refresh(const EngineState& state) {
  if (metrics_ == nullptr) return;
  metrics_->sequences.Set(state.sequences);
  metrics_->kv_free.Set(state.free_kv_tokens);
  metrics_->kv_usage.Set(
      state.kv_tokens > 0 ? 1 - static_cast<double>(state.free_kv_tokens) / state.kv_tokens : 0);
}

}  // namespace bastion::verifier
