// Converts the figures of suites to JSON and back. The reading functions throw
// nlohmann::json::exception for a missing key or a wrong type. Thread-safe: no state.
#ifndef BASTION_TOOLS_BENCH_SUITE_JSON_H_
#define BASTION_TOOLS_BENCH_SUITE_JSON_H_

#include <nlohmann/json_fwd.hpp>

#include "tools/bench/suite_figures.h"
#include "tools/bench/verify_latency.h"

namespace bastion {

[[nodiscard]] nlohmann::json FiguresJson(const ArmFigures& figures);
[[nodiscard]] ArmFigures ReadFigures(const nlohmann::json& json);

[[nodiscard]] nlohmann::json LatencyJson(const VerifyLatency& latency);
[[nodiscard]] VerifyLatency ReadLatency(const nlohmann::json& json);

}  // namespace bastion

#endif  // BASTION_TOOLS_BENCH_SUITE_JSON_H_
