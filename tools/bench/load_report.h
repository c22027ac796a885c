// The part of results.json and report.md that shows the figures of all levels.
#ifndef BASTION_TOOLS_BENCH_LOAD_REPORT_H_
#define BASTION_TOOLS_BENCH_LOAD_REPORT_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tools/bench/load_figures.h"

namespace bastion {

// The field `levels` of results.json. docs/measuring.md describes it.
[[nodiscard]] nlohmann::json LevelsJson(const std::vector<LevelResults>& levels,
                                        const LatencyTargets& targets);

// A table per level, with a line per policy.
[[nodiscard]] std::string LevelTables(const std::vector<LevelResults>& levels,
                                      const LatencyTargets& targets);

}  // namespace bastion

#endif  // BASTION_TOOLS_BENCH_LOAD_REPORT_H_
