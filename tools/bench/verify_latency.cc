#include "tools/bench/verify_latency.h"

#include <cmath>
#include <map>

#include "absl/strings/str_format.h"
#include "common/base/status.h"
#include "orchestrator/cost/paper_fit.h"
#include "orchestrator/cost/roofline.h"
#include "orchestrator/cost/static_fit.h"
#include "orchestrator/profile/verify_profile.h"

namespace bastion {
namespace {

// First session id of this file. No other code of this program uses ids in this range.
constexpr uint64_t kSession = uint64_t{5} << 60;

// Sums of squared errors.
struct Squares {
  double roofline = 0, fitted = 0;
  int points = 0;

  void Add(const LatencyPoint& point) {
    roofline += std::pow(point.roofline_seconds - point.seconds, 2);
    fitted += std::pow(point.static_seconds - point.seconds, 2);
    ++points;
  }
  [[nodiscard]] std::string Row(const std::string& label) const {
    const double bare = 1e3 * std::sqrt(roofline / points);
    const double profiled = 1e3 * std::sqrt(fitted / points);
    return absl::StrFormat("| %s | %d | %.3f | %.3f | %.0f %% |\n", label, points, bare, profiled,
                           bare > 0 ? 100 * (1 - profiled / bare) : 0);
  }
};

}  // namespace

absl::StatusOr<VerifyLatency> MeasureVerifyLatency(Verifier& verifier, const SuiteLatency& grid) {
  ProfileOptions options;
  options.row_counts = options.shared_row_counts = grid.rows;
  options.further_row_counts.clear();
  options.contexts = grid.contexts;
  options.session = kSession;
  options.time_limit = absl::Minutes(2);
  ASSIGN_OR_RETURN(const LatencyProfile table,
                   MeasureProfileWithBar(verifier, "timing the target", options));
  ASSIGN_OR_RETURN(const TargetInfo target, verifier.Info());
  ASSIGN_OR_RETURN(const Roofline roofline, Roofline::Make(target.dims, target.peaks));
  ASSIGN_OR_RETURN(const PaperFit fit, FitPaperModels(roofline, table));
  const StaticFit fitted(roofline, fit.line);
  VerifyLatency latency;
  latency.slope = fit.line.slope;
  latency.intercept = fit.line.intercept;
  latency.roofline_rmse = fit.roofline_rmse;
  latency.static_rmse = fit.static_rmse;
  for (const ProfilePoint& point : table.points) {
    if (point.interpolated) continue;
    latency.points.push_back({point.rows, point.context, point.seconds,
                              roofline.Seconds(point.rows, point.context),
                              absl::ToDoubleSeconds(fitted.Predict(point.rows, point.context))});
  }
  return latency;
}

std::string LatencyTable(const VerifyLatency& latency) {
  if (latency.points.empty()) return "";
  Squares all;
  std::map<int, Squares> contexts;
  for (const LatencyPoint& point : latency.points) {
    all.Add(point);
    contexts[point.context].Add(point);
  }
  std::string table = absl::StrFormat(
      "\n### Latency models\n\nStatic: T = a·R + b with a = %.3g, b = %.3g ms.\n\n"
      "| context | points | RMSE of R, ms | RMSE of Static, ms | cut |\n|---|--:|--:|--:|--:|\n",
      latency.slope, 1e3 * latency.intercept);
  for (const auto& [context, squares] : contexts)
    table += squares.Row(absl::StrFormat("%d", context));
  return table + all.Row("all");
}

}  // namespace bastion
