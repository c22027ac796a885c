#include "orchestrator/cost/static_fit.h"

#include <algorithm>
#include <limits>

#include "absl/status/status.h"

namespace bastion {

absl::StatusOr<StaticLine> StaticFit::Fit(const Roofline& roofline,
                                          absl::Span<const ProfilePoint> points) {
  double count = 0;
  double mean_r = 0;
  double mean_t = 0;
  double fastest = std::numeric_limits<double>::infinity();
  for (const ProfilePoint& point : points) {
    if (point.interpolated) continue;
    ++count;
    mean_r += roofline.Seconds(point.rows, point.context);
    mean_t += point.seconds;
    fastest = std::min(fastest, point.seconds);
  }
  if (count == 0) {
    return absl::InvalidArgumentError("static fit: no profile points; run MeasureProfile() first");
  }
  mean_r /= count;
  mean_t /= count;
  double covariance = 0;
  double variance = 0;
  for (const ProfilePoint& point : points) {
    if (point.interpolated) continue;
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
