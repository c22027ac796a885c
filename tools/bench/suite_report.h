// The report of a suite: results.json, report.md and plots. A report has one panel per machine and
// pair of models; merging reports joins their panels.
#ifndef BASTION_TOOLS_BENCH_SUITE_REPORT_H_
#define BASTION_TOOLS_BENCH_SUITE_REPORT_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/bench/suite.h"
#include "tools/bench/suite_figures.h"
#include "tools/bench/verify_latency.h"

namespace bastion {

// What one machine measured with one pair of models.
struct SuitePanel {
  std::string device, target, drafter;
  std::string mode;  // "in process" or the endpoint.
  std::vector<ArmFigures> figures = {};
  VerifyLatency latency = {};  // Empty unless the suite measures it.
  bool same_texts = true;      // All policies generated the same tokens.
};

struct SuiteReport {
  Suite suite;
  std::vector<SuitePanel> panels;  // At least one.
};

// The content of results.json. `runs`: the measurements of each panel, request by request
// (RunsJson). They are kept for readers and not used by this program.
[[nodiscard]] nlohmann::json ReportJson(const SuiteReport& report,
                                        const std::vector<nlohmann::json>& runs);

// The measurements of one panel, request by request.
[[nodiscard]] nlohmann::json RunsJson(const std::vector<SuiteRun>& runs, const DatasetOf& datasets);

// Reads what ReportJson made. INVALID_ARGUMENT, beginning with `origin`, for anything else.
[[nodiscard]] absl::StatusOr<SuiteReport> ParseReport(const nlohmann::json& json,
                                                      const std::string& origin);

// The content of report.md: the suite, what the paper reports, and for each panel its tables.
[[nodiscard]] std::string ReportMarkdown(const SuiteReport& report);

// Writes results.json and report.md to `folder`, which must exist. Returns the tables. Errors name
// the file.
[[nodiscard]] absl::StatusOr<std::string> WriteSuiteReport(const nlohmann::json& report,
                                                           const std::string& folder);

// Joins the reports in `folders` to one report, in this order. INVALID_ARGUMENT if there is no
// folder, if a report is of another suite than the first one, or if two panels have the same
// device and models; NOT_FOUND if a folder has no results.json.
[[nodiscard]] absl::StatusOr<nlohmann::json> MergeReports(const std::vector<std::string>& folders);

}  // namespace bastion

#endif  // BASTION_TOOLS_BENCH_SUITE_REPORT_H_
