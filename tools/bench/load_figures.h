// The figures of a load: system throughput, latencies, goodput and fairness.
//
// Only what comes in a window counts: after its beginning, and not after its end.
//
//   Closed loop: the window begins when each of the first `concurrency` requests has its first
//   token (warm-up), and ends when a request ends that no other one replaces (drain). Before and
//   after, fewer requests share the server than the level says.
//   Open loop: the window goes from the first arrival to the last end, because the time that an
//   overloaded server needs to catch up belongs to the load.
#ifndef BASTION_TOOLS_BENCH_LOAD_FIGURES_H_
#define BASTION_TOOLS_BENCH_LOAD_FIGURES_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "orchestrator/belief/reliability.h"
#include "tools/bench/load_plan.h"
#include "tools/bench/measurement.h"

namespace bastion {

// One run of a load by one arm.
struct LoadRun {
  std::vector<PromptMeasurement> requests;  // In order of arrival.
  int rejected = 0;                         // Open loop: requests that the server refused.
  Reliability reliability = {};             // Empty unless BenchSettings::reliability.

  // When the last request ended, in seconds since the load began.
  [[nodiscard]] double seconds() const;
};

// What one arm made of one level.
struct ArmResults {
  std::string policy;
  std::vector<LoadRun> rounds;
};

struct LevelResults {
  LoadLevel level;
  std::vector<ArmResults> arms;  // One per policy, in the same order at all levels.
};

// Appends a run that began when `run` ended.
void Append(LoadRun more, LoadRun* run);

// Seconds since the load began.
struct LoadWindow {
  double begin = 0, end = 0;
  [[nodiscard]] double seconds() const { return end > begin ? end - begin : 0; }
  [[nodiscard]] bool Contains(double at) const { return at > begin && at <= end; }
};

[[nodiscard]] LoadWindow WindowOf(const LoadRun& run, const LoadLevel& level);

// The smallest value that at least a share of `q` of the values does not exceed (nearest rank).
// REQUIRES: `values` is not empty; 0 < q <= 1.
[[nodiscard]] double Quantile(std::vector<double> values, double q);

struct Quantiles {
  double p50 = 0, p90 = 0, p99 = 0;
};

// Limits for a good request, in seconds. Infinite: no limit.
struct LatencyTargets {
  double gap;   // For the 99th percentile of the request's gaps.
  double ttft;  // For the time to its first token.
};

struct LoadFigures {
  int requests = 0;
  int rejected = 0;
  double seconds = 0;         // All runs, warm-up and drain included.
  double window_seconds = 0;  // All windows. 0: the throughputs below are 0, too.
  double window_share = 0;    // Share of all output tokens that came in a window.

  double tokens_per_second = 0;      // System throughput in the windows.
  double all_tokens_per_second = 0;  // All output tokens divided by `seconds`.
  // Tokens per second, in the windows, of the requests that meet the targets. A target is judged on
  // the gaps and first tokens that count.
  double goodput = 0;
  double fairness = 0;  // Jain's index over the rates of the requests: 1/n to 1.

  // Seconds. Empty without a value that counts.
  std::optional<Quantiles> ttft;         // From arrival to the first token.
  std::optional<Quantiles> gap;          // Between two deltas of a request.
  std::optional<Quantiles> token;        // The gap before a delta, divided among its tokens.
  std::optional<Quantiles> stream_rate;  // Tokens per second of a request, prefill excluded.
};

// The figures of all runs together.
[[nodiscard]] LoadFigures ComputeLoadFigures(absl::Span<const LoadRun> runs, const LoadLevel& level,
                                             const LatencyTargets& targets);

// The throughput of an arm divided by that of the policy `ar` in the same round.
struct RatioToPlain {
  double median = 0, low = 0, high = 0;  // Over the rounds.
};

// nullopt if `ar` did not run, or if a round has no window.
[[nodiscard]] std::optional<RatioToPlain> RatioOf(const ArmResults& arm, const LevelResults& level);

}  // namespace bastion

#endif  // BASTION_TOOLS_BENCH_LOAD_FIGURES_H_
