// Static: the default estimator of the BASTION paper, T = a·R(s, c) + b, where R(s, c) is the time
// of the roofline (roofline.h). It is fitted once, by least squares, to the measured profile
// points; interpolated points do not count. Observations do not change it.
//
// Two guards against noisy points go beyond the paper. If the fitted slope is negative, it becomes
// 0 and the prediction is the mean of the points. No prediction is below the fastest measured
// point. Thread-safe: immutable.
#ifndef BASTION_ORCHESTRATOR_COST_STATIC_FIT_H_
#define BASTION_ORCHESTRATOR_COST_STATIC_FIT_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "orchestrator/cost/estimator.h"
#include "orchestrator/cost/latency_profile.h"
#include "orchestrator/cost/roofline.h"

namespace bastion {

struct StaticLine {
  double slope = 1;          // a, predicted seconds per second of roofline time.
  double intercept = 0;      // b, seconds.
  double floor_seconds = 0;  // The time of the fastest point.
};

class StaticFit final : public LatencyEstimator {
 public:
  // INVALID_ARGUMENT if there are no measured points.
  [[nodiscard]] static absl::StatusOr<StaticLine> Fit(const Roofline& roofline,
                                                      absl::Span<const ProfilePoint> points);

  // The roofline itself.
  explicit StaticFit(const Roofline& roofline)
      : roofline_(roofline), line_({}), name_("roofline") {}
  StaticFit(const Roofline& roofline, const StaticLine& line)
      : roofline_(roofline), line_(line), name_("static") {}

  absl::Duration Predict(int rows, int context) const override;
  void Observe(int /*rows*/, int /*context*/, absl::Duration /*observed*/) override {}
  std::string_view name() const override { return name_; }

  [[nodiscard]] const StaticLine& line() const { return line_; }

 private:
  const Roofline roofline_;
  const StaticLine line_;
  const std::string_view name_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_COST_STATIC_FIT_H_
