// Verify latency: measured times of the verify forward over rows and contexts, beside the BASTION
// paper's latency models (figure 9a).
#ifndef BASTION_TOOLS_BENCH_VERIFY_LATENCY_H_
#define BASTION_TOOLS_BENCH_VERIFY_LATENCY_H_

#include <vector>

#include "absl/status/statusor.h"
#include "common/stages/stages.h"
#include "tools/bench/suite.h"

namespace bastion {

// One pair of a row count and a context.
struct LatencyPoint {
  int rows = 0;
  int context = 0;              // Cached tokens.
  double seconds = 0;           // Measured.
  double roofline_seconds = 0;  // R(s, c) alone.
  double static_seconds = 0;    // Static: a·R + b.
};

struct VerifyLatency {
  std::vector<LatencyPoint> points;  // Empty: not measured.
  double slope = 0;                  // a.
  double intercept = 0;              // b, seconds.
  // Root mean square errors over the points, in seconds.
  double roofline_rmse = 0, static_rmse = 0;
};

// Measures every pair of `grid` that fits the verifier. Returns the errors of MeasureProfileWithBar
// and FitPaperModels.
[[nodiscard]] absl::StatusOr<VerifyLatency> MeasureVerifyLatency(Verifier& verifier,
                                                                 const SuiteLatency& grid);

}  // namespace bastion

#endif  // BASTION_TOOLS_BENCH_VERIFY_LATENCY_H_
