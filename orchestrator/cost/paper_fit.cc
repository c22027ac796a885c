#include "orchestrator/cost/paper_fit.h"

#include <cmath>

#include "common/base/status.h"

namespace bastion {

absl::StatusOr<PaperFit> FitPaperModels(const Roofline& roofline, const LatencyProfile& table) {
  PaperFit fit;
  ASSIGN_OR_RETURN(fit.line, StaticFit::Fit(roofline, table.points));
  const StaticFit fitted(roofline, fit.line);
  // Σ R·T / Σ R² is the multiple of R with the least squared error.
  double products = 0, squares = 0;
  for (const ProfilePoint& point : table.points) {
    if (point.interpolated) continue;
    const double r = roofline.Seconds(point.rows, point.context);
    products += r * point.seconds;
    squares += r * r;
  }
  fit.scale = products / squares;
  double count = 0, bare = 0, scaled = 0, line = 0;
  for (const ProfilePoint& point : table.points) {
    if (point.interpolated) continue;
    ++count;
    const double r = roofline.Seconds(point.rows, point.context);
    const double predicted = absl::ToDoubleSeconds(fitted.Predict(point.rows, point.context));
    bare += (r - point.seconds) * (r - point.seconds);
    scaled += (fit.scale * r - point.seconds) * (fit.scale * r - point.seconds);
    line += (predicted - point.seconds) * (predicted - point.seconds);
  }
  fit.roofline_rmse = std::sqrt(bare / count);
  fit.scaled_rmse = std::sqrt(scaled / count);
  fit.static_rmse = std::sqrt(line / count);
  return fit;
}

}  // namespace bastion
