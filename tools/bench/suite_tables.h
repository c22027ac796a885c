// The tables of suite reports, in the form of the papers, as Markdown. Thread-safe: no state.
#ifndef BASTION_TOOLS_BENCH_SUITE_TABLES_H_
#define BASTION_TOOLS_BENCH_SUITE_TABLES_H_

#include <string>
#include <string_view>
#include <vector>

#include "tools/bench/suite_figures.h"

namespace bastion {

// The names of tables are:
//
//   datasets     speedup and τ by policy and dataset; the oracle (BASTION tables 1 and 5, DDTree
//                table 1)
//   budgets      speedup, τ and nodes by budget; the oracle (BASTION figure 4, DDTree figure 3)
//   stages       τ and milliseconds of a cycle by tree size (BASTION figure 2)
//   topology     trees of the same size in different shapes (BASTION figure 8)
//   estimators   speedup, τ and nodes of the latency estimators (BASTION figure 9b)
//   correlation  expected and accepted length of the chain (BASTION figure 6)
//   histogram    cycles by committed length (DDTree figure 4)
//   generation   throughput, acceptance, latency and memory (DynaTree tables 1, 2, 3 and 7)
//   prompts      throughput by prompt length (DynaTree table 6)
//   depths       nodes that were offered and accepted at each depth
//   load         system throughput and latency by concurrency
//   latency      errors of the latency models (BASTION figure 9a)
[[nodiscard]] bool IsSuiteTable(std::string_view name);

// The table `name` of these figures, with a heading. Empty if there is nothing to show. The table
// "latency" is not made of figures: see LatencyTable in verify_latency.h. REQUIRES:
// IsSuiteTable(name).
[[nodiscard]] std::string SuiteTable(std::string_view name, const std::vector<ArmFigures>& figures);

// The oracle of a cell: its fastest policy with a fixed budget ("fixed:N"), chosen after the
// measurement. Null if there is none.
[[nodiscard]] const ArmFigures* Oracle(const std::vector<ArmFigures>& figures,
                                       const SuiteCell& cell);

}  // namespace bastion

#endif  // BASTION_TOOLS_BENCH_SUITE_TABLES_H_
