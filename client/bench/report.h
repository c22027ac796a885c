// Computes results.json and report.md from measurements.
#ifndef BASTION_CLIENT_BENCH_REPORT_H_
#define BASTION_CLIENT_BENCH_REPORT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/bench/measurement.h"

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
  // Sums of the stage times over all cycles.
  [[nodiscard]] StageSeconds stages() const;
};

struct BenchReport {
  std::string device;  // Includes the number of threads and the dtype.
  std::string target, drafter;
  std::string mode;  // "in process" or the endpoint.
  BenchSettings settings;
  std::vector<PolicyResults> policies;

  // tokens_per_second of `policy` divided by that of "ar". 0 if "ar" did not run.
  [[nodiscard]] double SpeedupVsAr(const PolicyResults& policy) const;
};

// DATA_LOSS if the output of a policy differs from the first policy's; the message names the first
// difference. Speculation must not change a token.
[[nodiscard]] absl::Status CheckSameTexts(const BenchReport& report);

// The main table of report.md: a line per policy.
[[nodiscard]] std::string MarkdownTable(const BenchReport& report);

// τ and speed by kind of counts of the transition prior: a line for every policy that ran both
// without a prior and with +prior:table, +prior:request or +prior. Empty if there is no such
// policy.
[[nodiscard]] std::string AblationTable(const BenchReport& report);

// Writes results.json and report.md to `folder`. Errors name the file.
[[nodiscard]] absl::Status WriteReport(const BenchReport& report, const std::string& folder);

// Writes a file of a report. Creates the folder if it does not exist. Errors name the file.
[[nodiscard]] absl::Status WriteReportFile(const std::string& folder, const std::string& name,
                                           const std::string& content);

// Draws the plots of a written report with deploy/measure/plots.py and the Python in build/venv.
// UNAVAILABLE if that fails. The report is complete without plots.
[[nodiscard]] absl::Status DrawPlots(const std::string& folder);

}  // namespace bastion

#endif  // BASTION_CLIENT_BENCH_REPORT_H_
