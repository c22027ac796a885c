// measurements.json: everything that a run of bastion-bench measured, for
// deploy/measure/bench_report.py, which computes all figures and makes the report. Times are
// seconds. Thread-safe: no state.
//
//   {"format": 1, "kind": "comparison", "device", "target", "drafter", "mode",
//    "settings": {"temperature", "seed", …},
//    "latency_targets": {"gap", "ttft"}, null: no limit,
//    "policies_with_prior": [NAME, …], whose name alone includes a transition prior,
//    "levels": [LEVEL, …],
//    "texts": {"compared", "different", "problem"}, null: all texts are equal,
//    "latency_model": LatencyModelJson, or null}
//   {"format": 1, "kind": "suite", "device", "target", "drafter", "mode", "same_texts",
//    "suite": SuiteJson, "datasets": {PROMPT ID: DATASET, …},
//    "runs": [{"temperature", "seed", "prompt_tokens", "max_new_tokens",
//              "peak_memory_bytes": {POLICY: BYTES, …}, "levels": [LEVEL, …]}, …],
//    "left_out": [SENTENCE, …],
//    "accuracies": [{"drafter": NAME, "blocks": [M][P] of [tried, right],
//                    "buckets": [the text's][the rank head's]}, …],
//    "latency": {"points": [{"rows", "context", "seconds", "roofline_seconds", "static_seconds"},
//    …],
//                "slope", "intercept", "roofline_rmse", "static_rmse"}}
//   {"format": 1, "kind": "roofline", …}: RooflineReport::Json
//   {"format": 1, "kind": "rejection_sampling", "device", "target", "drafter", "settings",
//    "chains": [{"policy", "length", "keyed": SUMS, "sampled": SUMS}, …]}
//    SUMS: the fields of ChainSums (rejection_sampling.h)
//   {"format": 1, "kind": "replay", …}: ReplayReport::Json
//
//   LEVEL    {"concurrency", "rate" or "arrivals", "arms": [{"policy", "rounds": [RUN, …]}, …]}
//   RUN      {"requests": [REQUEST, …], "rejected",
//             "reliability": {"before", "after"}: of each bin [count, accepted, sum of the stated
//             probabilities], or null}
//   REQUEST  {"id", "output_token_ids", "seconds", "prefill_seconds", "arrived", "ended",
//             "deltas": [[at, tokens], …], "cycles": CYCLES}
//   CYCLES   one list per value, with an element for each cycle: "committed", "nodes", "rows",
//            "accepted", "expected_length", "context", "reason", "predicted_verify", and the stages
//            "draft", "tree", "verify_queue", "verify", "commit", "audit", "transfer". With
//            BenchSettings::keeps_trees also "offered": the nodes at each depth.
#ifndef BASTION_TOOLS_BENCH_MEASUREMENTS_JSON_H_
#define BASTION_TOOLS_BENCH_MEASUREMENTS_JSON_H_

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/bench/latency_model.h"
#include "tools/bench/load_run.h"
#include "tools/bench/suite_runner.h"

namespace bastion {

// Limits for a good request, in seconds. Infinite: no limit.
struct LatencyTargets {
  double gap;   // For the 99th percentile of the request's gaps.
  double ttft;  // For the time to its first token.
};

struct Comparison {
  std::string device;  // Includes the number of threads and the dtype.
  std::string target, drafter;
  std::string mode;  // "in process" or the endpoint.
  BenchSettings settings;
  LatencyTargets targets;
  std::vector<LevelResults> levels;           // At least one.
  std::optional<LatencyModel> latency_model;  // In process only.
};

// `texts`: that of CheckSameTexts.
[[nodiscard]] nlohmann::json ComparisonJson(const Comparison& comparison,
                                            const absl::Status& texts);
[[nodiscard]] nlohmann::json SuiteResultsJson(const SuiteResults& results);

}  // namespace bastion

#endif  // BASTION_TOOLS_BENCH_MEASUREMENTS_JSON_H_
