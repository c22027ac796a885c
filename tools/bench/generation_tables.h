// The tables of suite reports on generation as a user sees it: throughput, latency, memory, and
// what became of the drafted nodes. See suite_tables.h. Thread-safe: no state.
#ifndef BASTION_TOOLS_BENCH_GENERATION_TABLES_H_
#define BASTION_TOOLS_BENCH_GENERATION_TABLES_H_

#include <string>
#include <vector>

#include "tools/bench/suite_figures.h"

namespace bastion {

// Tables of one cell: a row per policy.
[[nodiscard]] std::string GenerationTable(const std::vector<const ArmFigures*>& rows);
[[nodiscard]] std::string DepthTable(const std::vector<const ArmFigures*>& rows);

// Tables over cells, with a heading for each. Empty if all cells have the same prompt length, or
// the same concurrency.
[[nodiscard]] std::string PromptsTable(const std::vector<ArmFigures>& figures);
[[nodiscard]] std::string LoadTable(const std::vector<ArmFigures>& figures);

}  // namespace bastion

#endif  // BASTION_TOOLS_BENCH_GENERATION_TABLES_H_
