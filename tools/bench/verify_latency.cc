#include "tools/bench/verify_latency.h"

#include "common/base/status.h"
#include "orchestrator/cost/paper_fit.h"
#include "orchestrator/cost/roofline.h"
#include "orchestrator/cost/static_fit.h"
#include "orchestrator/profile/verify_profile.h"

namespace bastion {
namespace {

// First session id of this file. No other code of this program uses ids in this range.
constexpr uint64_t kSession = uint64_t{5} << 60;

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

}  // namespace bastion
