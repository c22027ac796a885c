// The figures of a suite: what each policy did in each cell of the suite's grid. Plain data, which
// results.json keeps, so that reports of several machines can be merged.
#ifndef BASTION_TOOLS_BENCH_SUITE_FIGURES_H_
#define BASTION_TOOLS_BENCH_SUITE_FIGURES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/bench/bootstrap.h"
#include "tools/bench/load_figures.h"
#include "tools/bench/measurement.h"

namespace bastion {

// A cell of the grid. Its figures are over all seeds and rounds.
struct SuiteCell {
  float temperature = 0;
  int concurrency = 1;
  int prompt_tokens = 0;  // 0: prompts keep their length.
  std::string dataset;    // Empty: all prompts.

  friend bool operator==(const SuiteCell&, const SuiteCell&) = default;
};

// The trees at one depth.
struct DepthCount {
  int64_t cycles = 0;    // Cycles whose tree has a node at this depth.
  int64_t offered = 0;   // Nodes.
  int64_t accepted = 0;  // Accepted nodes, at most one per cycle.
};

// How the expected length of a tree, Â without the root, relates to its accepted nodes (BASTION,
// figure 6).
struct LengthCorrelation {
  double pearson = 0, spearman = 0;
  int64_t cycles = 0;
  std::vector<std::pair<double, int>> sample;  // At most 2000 cycles, evenly spaced, for the plot.
};

// Seconds. Means.
struct SuiteTimes {
  double ttft = 0;     // Per request: arrival to the first token.
  double tpot = 0;     // Per request: the later deltas, divided among their tokens.
  StageSeconds cycle;  // Per cycle.
};

struct ArmFigures {
  SuiteCell cell;
  std::string policy;
  int requests = 0;
  double stream_tokens_per_second = 0;  // Tokens / decode seconds of the requests, no prefill.
  double system_tokens_per_second = 0;  // ComputeLoadFigures. 0 if the cell has a dataset.
  // The rate of this policy divided by that of `ar`: of streams at concurrency 1, of the system
  // above. 0 if `ar` did not run.
  double speedup = 0;
  std::optional<Interval> spread;  // 95 % interval of `speedup` over prompts, at concurrency 1.
  double tau = 0;                  // Mean committed length of a cycle.
  double nodes = 0;                // Mean nodes of a tree, without the root.
  double acceptance = 0;           // Accepted nodes / offered nodes. 0 without nodes.
  SuiteTimes times;
  int64_t peak_memory = 0;         // Bytes, of the whole process while the policy ran.
  std::map<int, int64_t> lengths;  // Cycles by committed length.
  std::vector<DepthCount> depths;  // Element d - 1: depth d. Empty if trees were not kept.
  LengthCorrelation expected_length;
};

// What was measured at one temperature, seed and prompt length.
struct SuiteRun {
  float temperature = 0;
  uint64_t seed = 0;
  int prompt_tokens = 0;
  std::vector<LevelResults> levels;            // One per concurrency.
  std::map<std::string, int64_t> peak_memory;  // Bytes, by policy.
};

// The datasets of prompts, by id.
using DatasetOf = std::map<std::string, std::string>;

// The figures of all cells, in the order of the runs: first those of all prompts, then, at
// concurrency 1 and with several datasets, those of each dataset. REQUIRES: all runs have the same
// policies and concurrencies.
[[nodiscard]] std::vector<ArmFigures> ComputeSuiteFigures(const std::vector<SuiteRun>& runs,
                                                          const DatasetOf& datasets);

}  // namespace bastion

#endif  // BASTION_TOOLS_BENCH_SUITE_FIGURES_H_
