#include "tools/bench/step_trace.h"

#include <algorithm>

namespace bastion {

StageSeconds ToStageSeconds(const StageTimes& times) {
  return {.draft = absl::ToDoubleSeconds(times.draft),
          .tree = absl::ToDoubleSeconds(times.tree),
          .verify_queue = absl::ToDoubleSeconds(times.verify_queue),
          .verify = absl::ToDoubleSeconds(times.verify),
          .commit = absl::ToDoubleSeconds(times.commit),
          .audit = absl::ToDoubleSeconds(times.audit),
          .transfer = absl::ToDoubleSeconds(times.transfer)};
}

StepTrace::StepTrace(const Batch& batch, const CostModel& costs, int max_rows) {
  const auto count = static_cast<int>(batch.size());
  int64_t cached = 0;
  for (const DecodeSequence* sequence : batch) {
    cached += sequence->committed();
    first_.push_back(sequence->awaits_first_draft());
  }
  roots_ = {count, count, static_cast<int>(cached / count)};
  cost_ = costs.CostOf(roots_, std::max(0, max_rows - count), count);
}

CycleTrace StepTrace::Finish(const Batch& batch) const {
  CycleTrace trace;
  trace.sequences = roots_.sequences;
  trace.context = roots_.context;
  for (size_t i = 0; i < batch.size(); ++i) {
    if (!batch[i]->status().ok()) continue;
    const CycleRecord& record = batch[i]->cycles().back();
    trace.rows = record.rows;
    trace.experts = record.experts;
    trace.stages = ToStageSeconds(record.stages);
    trace.predicted.verify = absl::ToDoubleSeconds(record.predicted_verify);
    trace.committed += record.committed_length;
    trace.drafts += record.drafted ? 1 : 0;
    trace.first_draft = trace.first_draft || (record.drafted && first_[i]);
  }
  const std::vector<double>& curve = cost_.VerifyWith(trace.drafts);
  const int nodes = std::clamp(trace.nodes(), 0, cost_.max_nodes());
  trace.predicted.draft = cost_.draft[trace.drafts];
  trace.predicted.cycle = trace.predicted.draft + curve[nodes] + cost_.planning_seconds;
  for (int n = 0; n <= cost_.max_nodes(); n = n == 0 ? 1 : 2 * n) {
    trace.predicted.curve.emplace_back(n, curve[n]);
  }
  return trace;
}

}  // namespace bastion
