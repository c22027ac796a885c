#include "orchestrator/observe/serving_metrics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "orchestrator/observe/cycle_mode.h"
#include "orchestrator/observe/named_stages.h"
#include "orchestrator/schedule/live_request.h"

namespace bastion {
namespace {

using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;

// Tree depths with a counter of their own. Deeper nodes count for the last one.
constexpr int kDepths = 16;
constexpr int kReasons = static_cast<int>(BudgetReason::kNoDraft) + 1;

}  // namespace

struct ServingMetrics::Requests {
  explicit Requests(const MetricMaker& make)
      : prompt_tokens(make.Counter("bastion_prompt_tokens_total",
                                   "Prompt tokens of the requests that have ended.")),
        cached_tokens(make.Counter("bastion_prefix_cache_hits_total",
                                   "Those prompt tokens that were reused instead of computed.")),
        preemptions(make.Counter("bastion_preemptions_total",
                                 "Requests that lost their memory and continued later.")),
        queue(Seconds(make, "bastion_request_queue_time", "From arrival to admission.")),
        prefill(
            Seconds(make, "bastion_request_prefill_time", "From admission to the end of prefill.")),
        decode(Seconds(make, "bastion_request_decode_time", "From the end of prefill to the end.")),
        first_token(
            Seconds(make, "bastion_time_to_first_token", "From arrival to the first output.")),
        latency(Seconds(make, "bastion_e2e_request_latency", "From arrival to the end.")),
        token_gap(make.Histogram("bastion_inter_token_latency_seconds",
                                 "Time between two outputs of a request, divided among the tokens "
                                 "of the later one. Each token counts.",
                                 CycleSeconds())) {}

  static Histogram& Seconds(const MetricMaker& make, const std::string& name,
                            const std::string& help) {
    return make.Histogram(absl::StrCat(name, "_seconds"), help, RequestSeconds());
  }

  Counter &prompt_tokens, &cached_tokens, &preemptions;
  Histogram &queue, &prefill, &decode, &first_token, &latency, &token_gap;
};

struct ServingMetrics::Cycles {
  explicit Cycles(const MetricMaker& make)
      : duration(make.Histogram("bastion_cycle_duration_seconds", "Duration of a cycle.",
                                CycleSeconds())),
        prefill_tokens(make.Counter("bastion_prefill_tokens_total",
                                    "Prompt tokens that were computed, also again after a "
                                    "preemption.")),
        generated(make.Counter("bastion_generation_tokens_total", "Tokens of output.")),
        drafts(make.Counter("bastion_spec_drafts_total", "Drafts that requests asked for.")),
        draft_failures(make.Counter("bastion_draft_failures_total",
                                    "Cycles whose draft failed, was late or was not valid.")),
        nodes(
            make.Counter("bastion_spec_draft_tokens_total", "Nodes of trees that were verified.")),
        accepted(make.Counter("bastion_spec_accepted_tokens_total", "Nodes that were accepted.")),
        wasted(make.Counter("bastion_spec_wasted_tokens_total", "Nodes that were not accepted.")),
        committed_length(make.Histogram("bastion_spec_acceptance_length",
                                        "Accepted nodes of a tree.",
                                        {0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16})),
        tree_nodes(make.Histogram("bastion_spec_tree_nodes", "Nodes of a tree, without the root.",
                                  {0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024})),
        predicted_verify(make.Counter("bastion_verify_predicted_seconds_total",
                                      "Sum of the predicted verify times.")),
        measured_verify(make.Counter("bastion_verify_measured_seconds_total",
                                     "Sum of the measured verify times.")),
        prediction_error(make.Histogram("bastion_verify_prediction_error_ratio",
                                        "|predicted - measured| / measured verify time of a cycle.",
                                        {0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 1, 2, 4})),
        decode_seconds(make.Counter("bastion_decode_seconds_total",
                                    "Time of all cycles, without the prompts' part.")),
        plain_seconds(make.Counter("bastion_plain_decode_seconds_total",
                                   "Estimated time of plain decoding for the same tokens.")) {
    for (size_t i = 0; i < modes.size(); ++i) {
      modes[i] = &make.Counter("bastion_cycles_total", "Cycles, by what they did.",
                               {{"mode", kCycleModeNames[i]}});
    }
    for (const NamedStage& stage : kStages) {
      stages.push_back(&make.Histogram("bastion_cycle_phase_duration_seconds",
                                       "Duration of a stage of a cycle.", CycleSeconds(),
                                       {{"phase", stage.name}}));
    }
    for (int depth = 1; depth <= kDepths; ++depth) {
      accepted_at[depth - 1] = &make.Counter("bastion_spec_accepted_tokens_per_position_total",
                                             "Accepted nodes, by their depth in the tree.",
                                             {{"position", absl::StrCat(depth)}});
    }
    for (int reason = 0; reason < kReasons; ++reason) {
      reasons[reason] = &make.Counter(
          "bastion_spec_budget_reasons_total", "Trees, by the reason for their number of nodes.",
          {{"reason", std::string(BudgetReasonName(static_cast<BudgetReason>(reason)))}});
    }
  }

  std::array<Counter*, std::size(kCycleModeNames)> modes = {};
  Histogram& duration;
  std::vector<Histogram*> stages;
  Counter &prefill_tokens, &generated, &drafts, &draft_failures, &nodes, &accepted, &wasted;
  std::array<Counter*, kDepths> accepted_at = {};
  Histogram &committed_length, &tree_nodes;
  std::array<Counter*, kReasons> reasons = {};
  Counter &predicted_verify, &measured_verify;
  Histogram& prediction_error;
  Counter &decode_seconds, &plain_seconds;
};

struct ServingMetrics::Gauges {
  explicit Gauges(const MetricMaker& make)
      : running(make.Gauge("bastion_requests_running", "Requests that are admitted.")),
        waiting(make.Gauge("bastion_requests_waiting", "Requests in the queue.")),
        parked(make.Gauge("bastion_requests_parked", "Requests whose clients do not read.")),
        kv_usage(make.Gauge("bastion_kv_cache_usage_ratio",
                            "Used share of the verifier's KV cache, 0 to 1.")),
        kv_free(make.Gauge("bastion_kv_cache_free_tokens",
                           "Tokens that fit into the free pages of the KV cache.")),
        verifier(make.Gauge("bastion_verifier_connected", "1 if the verifier is connected.")),
        drafter(make.Gauge("bastion_drafter_connected",
                           "1 if a drafter has answered and the last draft succeeded.")),
        speedup(make.Gauge("bastion_speedup_ratio",
                           "Estimated speedup over plain decoding in the recent past.")),
        calibration_error(make.Gauge("bastion_acceptance_calibration_error",
                                     "Expected calibration error of the acceptance probabilities "
                                     "of verified nodes since the start.")),
        audited(make.Gauge("bastion_audited_tokens",
                           "Tokens that the verifier's audit compared "
                           "since the verifier started.")),
        mismatches(make.Gauge("bastion_audit_mismatches",
                              "Audited tokens that differ from plain decoding.")) {}

  Gauge &running, &waiting, &parked, &kv_usage, &kv_free, &verifier, &drafter, &speedup;
  Gauge &calibration_error, &audited, &mismatches;
};

ServingMetrics::ServingMetrics(const MetricMaker& make)
    : make_(make),
      requests_(std::make_unique<Requests>(make)),
      cycles_(std::make_unique<Cycles>(make)),
      gauges_(std::make_unique<Gauges>(make)) {}

ServingMetrics::~ServingMetrics() = default;

void ServingMetrics::OnCycle(const CycleSummary& cycle, const ServedCycle& requests) {
  const double total = absl::ToDoubleSeconds(cycle.stages.total());
  cycles_->modes[static_cast<size_t>(ModeOf(cycle))]->Increment();
  cycles_->duration.Observe(total);
  for (size_t i = 0; i < cycles_->stages.size(); ++i) {
    cycles_->stages[i]->Observe(absl::ToDoubleSeconds(cycle.stages.*kStages[i].time));
  }
  cycles_->prefill_tokens.Increment(cycle.size.prompts.rows);
  if (!cycle.draft_status.ok()) cycles_->draft_failures.Increment();
  const double predicted = absl::ToDoubleSeconds(cycle.predicted_verify);
  const double measured = absl::ToDoubleSeconds(cycle.stages.verify);
  cycles_->predicted_verify.Increment(predicted);
  cycles_->measured_verify.Increment(measured);
  if (measured > 0) {
    cycles_->prediction_error.Observe(std::abs(predicted - measured) / measured);
  }
  int tokens = 0;
  for (const LiveRequest* request : requests.decoding) {
    CountDecoding(*request);
    tokens += request->sequence().cycles().back().committed_length;
  }
  if (requests.decoding.empty()) return;
  // Plain decoding commits one token for each sequence.
  const absl::Duration plain =
      cycle.plain * (static_cast<double>(tokens) / static_cast<double>(requests.decoding.size()));
  cycles_->decode_seconds.Increment(absl::ToDoubleSeconds(cycle.decode_time()));
  cycles_->plain_seconds.Increment(absl::ToDoubleSeconds(plain));
  speedup_.Observe(cycle.decode_time(), plain);
}

void ServingMetrics::CountDecoding(const LiveRequest& request) {
  const CycleRecord& record = request.sequence().cycles().back();
  cycles_->generated.Increment(record.committed_length);
  if (record.drafted) cycles_->drafts.Increment();
  cycles_->nodes.Increment(record.nodes);
  cycles_->accepted.Increment(record.accepted);
  cycles_->wasted.Increment(record.nodes - record.accepted);
  for (int depth = 1; depth <= record.accepted; ++depth) {
    cycles_->accepted_at[std::min(depth, kDepths) - 1]->Increment();
  }
  cycles_->committed_length.Observe(record.accepted);
  cycles_->tree_nodes.Observe(record.nodes);
  cycles_->reasons[static_cast<size_t>(record.reason)]->Increment();
  if (request.last_gap() > absl::ZeroDuration() && record.committed_length > 0) {
    const double gap = absl::ToDoubleSeconds(request.last_gap()) / record.committed_length;
    for (int i = 0; i < record.committed_length; ++i) requests_->token_gap.Observe(gap);
  }
}

void ServingMetrics::OnEnd(const LiveRequest& request, const absl::Status& status) {
  CountEnd(status, status.ok() ? FinishReasonName(request.sequence().reason()) : "");
  requests_->prompt_tokens.Increment(static_cast<double>(request.request().decode.prompt.size()));
  if (request.admitted()) {
    requests_->cached_tokens.Increment(request.sequence().reused_prompt_tokens());
  }
  if (!status.ok()) return;
  const RequestTimes& times = request.times();
  for (const auto& [histogram, time] :
       {std::pair(&requests_->queue, times.queue), std::pair(&requests_->prefill, times.prefill),
        std::pair(&requests_->decode, times.decode),
        std::pair(&requests_->first_token, times.first_token),
        std::pair(&requests_->latency, times.total)}) {
    histogram->Observe(absl::ToDoubleSeconds(time));
  }
}

void ServingMetrics::OnRefusal(const absl::Status& status) { CountEnd(status, ""); }

void ServingMetrics::OnPreemption(const LiveRequest&) { requests_->preemptions.Increment(); }

void ServingMetrics::CountEnd(const absl::Status& status, const std::string& reason) {
  make_
      .Counter("bastion_requests_total",
               "Requests that have ended, by gRPC status code and reason. Each of the n answers of "
               "a call counts.",
               {{"code", absl::StatusCodeToString(status.code())}, {"finish_reason", reason}})
      .Increment();
}

void ServingMetrics::Refresh(const SchedulerStats& stats) {
  gauges_->running.Set(stats.running);
  gauges_->waiting.Set(stats.waiting);
  gauges_->parked.Set(stats.parked);
  const double capacity = stats.target.kv_tokens;
  gauges_->kv_usage.Set(capacity > 0 ? 1 - stats.free_kv_tokens / capacity : 0);
  gauges_->kv_free.Set(stats.free_kv_tokens);
  gauges_->verifier.Set(stats.ready ? 1 : 0);
  gauges_->drafter.Set(stats.drafts_succeed ? 1 : 0);
  gauges_->speedup.Set(speedup_.ratio());
  gauges_->calibration_error.Set(stats.reliability.expected_calibration_error());
  gauges_->audited.Set(static_cast<double>(stats.audit.tokens));
  gauges_->mismatches.Set(static_cast<double>(stats.audit.mismatches));
}

}  // namespace bastion
