// Staircase: the measured table of verify times itself, rows × contexts, instead of a line through
// it. Real costs are staircases (tiles on a GPU, vector widths on a CPU), which a roofline smooths
// away and a budget wants to stand on.
//
// Prediction: linear between measured row counts and between measured contexts; below the first
// context its value; beyond the last row count or context along the last segment. Never falling in
// rows.
// Correction: the machine drifts, so every observation moves two factors by the residual
// e = observed / predicted: one for the whole table, one for the row counts it lies between. A slow
// machine is thus learned for all rows, and a wrong point for its own. Steps are taken in log space
// with e clipped to [1/2, 2], so that a stalled forward does not bend the table.
// Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_COST_STAIRCASE_H_
#define BASTION_ORCHESTRATOR_COST_STAIRCASE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "orchestrator/cost/calibration_table.h"
#include "orchestrator/cost/estimator.h"

namespace bastion {

class Staircase final : public LatencyEstimator {
 public:
  static constexpr double kAlpha = 0.1;  // Of each of the two factors.

  // INVALID_ARGUMENT unless the points are a full grid of positive times; a point measured twice
  // counts by its mean.
  [[nodiscard]] static absl::StatusOr<Staircase> Make(absl::Span<const CalibrationPoint> points);

  absl::Duration Predict(int rows, int context) const override;
  void Curve(int context, absl::Span<double> seconds) const override;
  void Observe(int rows, int context, absl::Duration observed) override;
  std::string_view name() const override { return "staircase"; }

  // The measured row counts, rising.
  [[nodiscard]] const std::vector<int>& row_counts() const { return rows_; }

 private:
  // A place between two knots: value = (1 − weight)·knot[low] + weight·knot[low + 1]. The weight is
  // above 1 beyond the last knot.
  struct Place {
    int low = 0;
    double weight = 0;
  };

  Staircase(std::vector<int> rows, std::vector<int> contexts, std::vector<double> seconds);
  [[nodiscard]] static Place Locate(const std::vector<int>& knots, int at);
  // The corrected time at a measured row count.
  [[nodiscard]] double AtKnot(int row_index, const Place& context) const;

  std::vector<int> rows_;
  std::vector<int> contexts_;
  std::vector<double> seconds_;      // [rows, contexts], never falling in rows.
  std::vector<double> row_factors_;  // [rows]
  double factor_ = 1;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_COST_STAIRCASE_H_
