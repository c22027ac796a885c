// Computes results.json and report.md from measurements.
#ifndef BASTION_TOOLS_BENCH_REPORT_H_
#define BASTION_TOOLS_BENCH_REPORT_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/bench/load_figures.h"
#include "tools/bench/measurement.h"
#include "tools/bench/model_report.h"

namespace bastion {

struct PolicyResults {
  std::string policy;
  std::vector<PromptMeasurement> prompts;

  [[nodiscard]] double tokens_per_second() const;
  // τ: the mean committed length of a cycle.
  [[nodiscard]] double tau() const;
  [[nodiscard]] double mean_nodes() const;
  // Median of |predicted − measured| / measured over all cycles. 0 without cycles.
  [[nodiscard]] double verify_prediction_error_median() const;
  // Sums of the stage times over all cycles. The requests of a cycle share its times by their rows,
  // so the sum over all requests is the time that passed.
  [[nodiscard]] StageSeconds stages() const;
};

struct BenchReport {
  std::string device;  // Includes the number of threads and the dtype.
  std::string target, drafter;
  std::string mode;  // "in process" or the endpoint.
  BenchSettings settings;
  LatencyTargets targets;
  std::vector<LevelResults> levels;
  bool counts_differ = false;  // Arms may run different numbers of requests: --duration, open loop.
  std::vector<PolicyResults> policies;        // The requests of the first level.
  std::optional<LatencyModel> latency_model;  // In process only.

  // tokens_per_second of `policy` divided by that of "ar". 0 if "ar" did not run.
  [[nodiscard]] double SpeedupVsAr(const PolicyResults& policy) const;
};

// The requests of all rounds of `level`, by policy.
[[nodiscard]] std::vector<PolicyResults> PoliciesOf(const LevelResults& level);

// How many outputs differ from the first one for the same prompt and limit, over all policies,
// levels and rounds.
struct TextDifferences {
  int outputs = 0;
  int different = 0;
  absl::Status first;  // DATA_LOSS that names the first difference. OK if there is none.

  // "3 of 64 outputs differ: …"
  [[nodiscard]] std::string ToString() const;
};
[[nodiscard]] TextDifferences FindDifferentTexts(const BenchReport& report);

// DATA_LOSS if two outputs for the same prompt and limit differ, over all policies, levels and
// rounds; the message is that of FindDifferentTexts. Neither speculation nor load may change a
// token. INTERNAL if policies ran different numbers of requests, unless counts_differ.
[[nodiscard]] absl::Status CheckSameTexts(const BenchReport& report);

// The tables of all levels, MarkdownTable, the tables of model_report.h, and its warnings.
[[nodiscard]] std::string ReportTables(const BenchReport& report);

// The table of the first level as its requests see it: a line per policy.
[[nodiscard]] std::string MarkdownTable(const BenchReport& report);

// τ and speed by kind of counts of the transition prior: a line for every policy that ran both
// without a prior and with +prior:table, +prior:request or +prior. Empty if there is no such
// policy.
[[nodiscard]] std::string AblationTable(const BenchReport& report);

// Creates the folder of a report unless it exists. UNAVAILABLE if that fails: better before a long
// measurement than after it.
[[nodiscard]] absl::Status CreateReportFolder(const std::string& folder);

// Writes results.json and report.md to `folder`, which must exist. Errors name the file.
[[nodiscard]] absl::Status WriteReport(const BenchReport& report, const std::string& folder);

// Writes a file of a report to `folder`, which must exist. Errors name the file.
[[nodiscard]] absl::Status WriteReportFile(const std::string& folder, const std::string& name,
                                           const std::string& content);

// Draws the plots of a written report with deploy/measure/plots.py in `sources`, and with the
// Python in build/venv there, or else the python3 in PATH. UNAVAILABLE if that fails, e.g. because
// it has no matplotlib. The report is complete without plots.
[[nodiscard]] absl::Status DrawPlots(const std::string& sources, const std::string& folder);

}  // namespace bastion

#endif  // BASTION_TOOLS_BENCH_REPORT_H_
