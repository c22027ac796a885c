// results.json and report.md out of measurements.
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
  // τ: mean committed length of a cycle.
  [[nodiscard]] double tau() const;
  [[nodiscard]] double mean_nodes() const;
  // Median of |predicted − measured| / measured over all cycles; 0 without any.
  [[nodiscard]] double verify_prediction_error_median() const;
  // Sums over all cycles.
  [[nodiscard]] StageSeconds stages() const;
};

struct BenchReport {
  std::string device;  // Says threads and dtype too.
  std::string target, drafter;
  std::string mode;  // "in process" or the endpoint.
  BenchSettings settings;
  std::vector<PolicyResults> policies;

  // Against the policy "ar"; 0 when it did not run.
  [[nodiscard]] double SpeedupVsAr(const PolicyResults& policy) const;
};

// Speculation must not change a token: every policy's output against the first policy's. DATA_LOSS
// names the first difference.
[[nodiscard]] absl::Status CheckSameTexts(const BenchReport& report);

// The table that people read.
[[nodiscard]] std::string MarkdownTable(const BenchReport& report);

// What each source of the transition prior is worth: a row for every policy that ran without a
// prior and with +prior:table, +prior:request or +prior. Empty where none did.
[[nodiscard]] std::string AblationTable(const BenchReport& report);

// Writes OUTDIR/results.json and OUTDIR/report.md. Errors name the file.
[[nodiscard]] absl::Status WriteReport(const BenchReport& report, const std::string& folder);

// Writes one file of a report, and its folder where there is none. Errors name the file.
[[nodiscard]] absl::Status WriteReportFile(const std::string& folder, const std::string& name,
                                           const std::string& content);

// Draws the plots of a written report with deploy/measure/plots.py and the Python of build/venv.
// Returns UNAVAILABLE if that fails; the report itself is complete without plots.
[[nodiscard]] absl::Status DrawPlots(const std::string& folder);

}  // namespace bastion

#endif  // BASTION_CLIENT_BENCH_REPORT_H_
