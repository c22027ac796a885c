// Compares latency estimators on a recorded trace: how well each predicts the verify times, and
// what its errors cost.
//
// Every estimator sees the cycles in the order of the recording and predicts each one before it
// learns from it. Cycles of different cost models (CycleTrace::model) do not teach each other.
//
// Budget regret: cycles with the same number of sequences are compared by their total of nodes n.
// A size n is known by the mean time C(n) and the mean committed tokens A(n) of its cycles; sizes
// with few cycles are left out. For each cycle, an estimator would choose the size with the highest
// A(n) / (predicted verify time + mean time of all other stages); the oracle chooses the size with
// the highest A(n) / C(n). The regret is what the choice loses in A(n) / C(n). It is only
// meaningful if the sizes were not chosen by how good the drafts were, so record arms of fixed size
// (ar, fixed:N).
#ifndef BASTION_TOOLS_BENCH_TRACE_REPLAY_H_
#define BASTION_TOOLS_BENCH_TRACE_REPLAY_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/bench/cycle_trace.h"

namespace bastion {

struct EstimatorResult {
  std::string name;
  double rmse_seconds = 0;
  // Quantiles of |predicted − measured| / measured.
  double median_error = 0;
  double p95_error = 0;
  double regret_tokens_per_second = 0;  // Mean over all cycles of a group with several sizes.
  double regret_share = 0;              // The same, divided by the oracle's tokens per second.
};

struct ReplayReport {
  std::string device;
  int cycles = 0;
  int compared_cycles = 0;  // Cycles in groups with at least two sizes; only they have a regret.
  // The estimators of make_estimator.h, on rows and context as if there was one sequence; "batch",
  // the cost model of a batch; "recorded", the predictions of the recording; "mean of size", the
  // mean of all cycles of the same sequences, rows and drafting, in hindsight.
  std::vector<EstimatorResult> estimators;

  // The measurements of kind "replay" (measurements_json.h).
  [[nodiscard]] nlohmann::json Json() const;
};

// INVALID_ARGUMENT if an estimator cannot be fitted to the header of the trace.
[[nodiscard]] absl::StatusOr<ReplayReport> ReplayTrace(const Trace& trace);

}  // namespace bastion

#endif  // BASTION_TOOLS_BENCH_TRACE_REPLAY_H_
