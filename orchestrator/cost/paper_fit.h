// PaperFit: how closely the BASTION paper's latency models follow a profile (figure 9a). The
// errors are root mean squares over the measured points. Plain data.
#ifndef BASTION_ORCHESTRATOR_COST_PAPER_FIT_H_
#define BASTION_ORCHESTRATOR_COST_PAPER_FIT_H_

#include "absl/status/statusor.h"
#include "orchestrator/cost/latency_profile.h"
#include "orchestrator/cost/roofline.h"
#include "orchestrator/cost/static_fit.h"

namespace bastion {

struct PaperFit {
  // What the paper reports for its three targets: the linear calibration cuts the error by 87 to
  // 92 percent.
  static constexpr double kPaperCutLow = 0.87, kPaperCutHigh = 0.92;

  StaticLine line;           // Static: a and b.
  double roofline_rmse = 0;  // Seconds. The bare roofline R(s, c).
  double scaled_rmse = 0;  // Seconds. The best multiple of R, `scale`·R. The paper has no such row.
  double scale = 0;
  double static_rmse = 0;  // Seconds. Static, with both of its guards.

  // The part of the bare roofline's error that Static removes.
  [[nodiscard]] double cut() const {
    return roofline_rmse > 0 ? 1 - static_rmse / roofline_rmse : 0;
  }
};

// INVALID_ARGUMENT if there are no measured points.
[[nodiscard]] absl::StatusOr<PaperFit> FitPaperModels(const Roofline& roofline,
                                                      const LatencyProfile& table);

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_COST_PAPER_FIT_H_
