// Writes measurements, and starts the script that makes reports of them
// (deploy/measure/bench_report.py). Thread-safe: no state.
#ifndef BASTION_TOOLS_BENCH_REPORT_SCRIPT_H_
#define BASTION_TOOLS_BENCH_REPORT_SCRIPT_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace bastion {

// Creates the folder of a report unless it exists. UNAVAILABLE if that fails: better before a long
// measurement than after it.
[[nodiscard]] absl::Status CreateReportFolder(const std::string& folder);

// Writes folder/measurements.json. `kind` and the fields: measurements_json.h. UNAVAILABLE, naming
// the file, if that fails.
[[nodiscard]] absl::Status WriteMeasurements(const std::string& kind, nlohmann::json measurements,
                                             const std::string& folder);

// Runs bench_report.py in `sources` with these arguments, with the Python in build/venv there, or
// else the python3 in PATH. The script prints tables. UNAVAILABLE, with the command, if it fails.
[[nodiscard]] absl::Status RunReportScript(const std::string& sources,
                                           std::vector<std::string> arguments);

// Writes the measurements and makes their report. Empty folder: only prints the tables; the
// measurements remain in a temporary folder if the script fails. The errors of the functions above.
[[nodiscard]] absl::Status MakeReport(const std::string& kind, nlohmann::json measurements,
                                      const std::string& folder, const std::string& sources);

}  // namespace bastion

#endif  // BASTION_TOOLS_BENCH_REPORT_SCRIPT_H_
