// LoadPlan: the requests of a load and when they start: a closed loop, Poisson arrivals, or the
// arrivals of a trace file. Plain data; LoadGenerator (load_generator.h) carries it out.
#ifndef BASTION_TOOLS_BENCH_LOAD_PLAN_H_
#define BASTION_TOOLS_BENCH_LOAD_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tools/bench/measurement.h"
#include "tools/bench/prompts.h"

namespace bastion {

// One load of a benchmark.
struct LoadLevel {
  int concurrency = 0;  // Closed loop: number of live requests. 0: open loop.
  double rate = 0;      // Open loop: mean arrivals per second. 0: the times in `arrivals`.
  // File with the arrivals. Empty: closed loop, or Poisson arrivals.
  std::string arrivals = {};

  [[nodiscard]] bool closed() const { return concurrency > 0; }
  // "concurrency 4", "rate 2.5/s" or "arrivals in FILE".
  [[nodiscard]] std::string ToString() const;
};

struct PlannedRequest {
  const BenchPrompt* prompt = nullptr;  // Not owned.
  int max_new_tokens = 0;
  absl::Duration arrival;  // Open loop: time since the load began.
};

struct LoadPlan {
  LoadLevel level;
  std::vector<PlannedRequest> requests;  // In order of arrival.
  int max_live = 1;
  // Closed loop: no request starts after this time. The requests are repeated until then. Infinite:
  // each request runs once.
  absl::Duration duration = absl::InfiniteDuration();
};

// Sets the arrivals of `requests` to a Poisson process with `rate` arrivals per second. The first
// request arrives at time 0. The same seed gives the same arrivals.
void SetPoissonArrivals(double rate, uint64_t seed, std::vector<PlannedRequest>* requests);

// How to load the server. Each element of `concurrency` and `rates` is a level.
struct LoadOptions {
  std::vector<int> concurrency = {};
  std::vector<double> rates = {};
  std::string arrivals = {};  // File. Empty: none.
  int repeat = 1;             // Number of times that a level runs every prompt.
  // No request starts after this time; the prompts repeat until then.
  absl::Duration duration = absl::InfiniteDuration();
  int max_running = 32;  // Open loop: most live requests. Further ones wait.
};

// One plan per level. INVALID_ARGUMENT for a closed loop with fewer requests than its concurrency,
// or for more than a million requests. REQUIRES: `prompts` is not empty, and outlives the plans.
[[nodiscard]] absl::StatusOr<std::vector<LoadPlan>> PlanLoads(
    const LoadOptions& options, const std::vector<BenchPrompt>& prompts,
    const BenchSettings& settings);

// A plan for the arrivals of the file options.arrivals. REQUIRES: `arrivals` is not empty, is
// sorted by time, and outlives the plan.
[[nodiscard]] LoadPlan PlanArrivals(const LoadOptions& options,
                                    const std::vector<TracedArrival>& arrivals,
                                    const BenchSettings& settings);

}  // namespace bastion

#endif  // BASTION_TOOLS_BENCH_LOAD_PLAN_H_
