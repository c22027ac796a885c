#include "orchestrator/cost/static_fit.h"

#include <algorithm>
#include <limits>

#include "absl/status/status.h"

namespace bastion {

absl::StatusOr<StaticLine> StaticFit::Fit(const Roofline& roofline,
                                          absl::Span<const CalibrationPoint> points) {
  if (points.empty()) {
    return absl::InvalidArgumentError("static fit: no calibration points; run Calibrate() first");
  }
  const auto count = static_cast<double>(points.size());
  double mean_r = 0;
  double mean_t = 0;
  double fastest = std::numeric_limits<double>::infinity();
  for (const CalibrationPoint& point : points) {
    mean_r += roofline.Seconds(point.rows, point.context) / count;
    mean_t += point.seconds / count;
    fastest = std::min(fastest, point.seconds);
  }
  double covariance = 0;
  double variance = 0;
  for (const CalibrationPoint& point : points) {
    const double r = roofline.Seconds(point.rows, point.context) - mean_r;
    covariance += r * (point.seconds - mean_t);
    variance += r * r;
  }
  // If all points have the same roofline value, they say nothing about the slope.
  const double slope = variance > 0 ? std::max(0.0, covariance / variance) : 0.0;
  return StaticLine{slope, mean_t - slope * mean_r, fastest};
}

absl::Duration StaticFit::Predict(int rows, int context) const {
  const double seconds = line_.slope * roofline_.Seconds(rows, context) + line_.intercept;
  return absl::Seconds(std::max(seconds, line_.floor_seconds));
}

}  // namespace bastion
