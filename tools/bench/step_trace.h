// Makes a CycleTrace of a step of DecodeCycle, from what the sequences and the cost model say
// before and after it.
#ifndef BASTION_TOOLS_BENCH_STEP_TRACE_H_
#define BASTION_TOOLS_BENCH_STEP_TRACE_H_

#include "orchestrator/cost/cost_model.h"
#include "orchestrator/cycle/decode_cycle.h"
#include "tools/bench/cycle_trace.h"

namespace bastion {

[[nodiscard]] StageSeconds ToStageSeconds(const StageTimes& times);

class StepTrace {
 public:
  // Before the step. REQUIRES: `batch` is not empty; `max_rows` is the verifier's limit.
  StepTrace(const Batch& batch, const CostModel& costs, int max_rows);

  // After the step. The caller sets `model`, `policy` and `level`.
  [[nodiscard]] CycleTrace Finish(const Batch& batch) const;

 private:
  VerifySize roots_;
  std::vector<bool> first_;  // By sequence: its next draft is its first.
  BatchCost cost_;
};

}  // namespace bastion

#endif  // BASTION_TOOLS_BENCH_STEP_TRACE_H_
