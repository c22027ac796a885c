// Staircase: predicts verify times from the measured table itself, rows × contexts, instead of a
// line fitted to it. Real costs are staircases (tiles on a GPU, vector widths on a CPU). A roofline
// smooths the steps away, but the best budgets are just before a step.
//
// Prediction: linear between measured row counts and between measured contexts. Below the first
// context or row count, the first value applies. Beyond the last context or row count, the last
// segment is extrapolated. The prediction never decreases as the rows increase.
//
// Correction: the machine's speed drifts, so every observation moves factors by its residual
// e = observed / predicted. One factor scales the whole table and tracks the machine's speed. Each
// measured row count also has its own factor, which corrects an error in that point. An observation
// moves the factors of all row counts within a factor of 2, the closest ones most: if neighbors had
// independent noise, the difference between them, the cost of a node, would be mostly noise. It
// also lowers the factors of smaller row counts that would take longer. Steps are taken in log
// space with e clipped to [1/2, 2], so one stalled forward does not distort the table.
// Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_COST_STAIRCASE_H_
#define BASTION_ORCHESTRATOR_COST_STAIRCASE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "orchestrator/cost/estimator.h"
#include "orchestrator/cost/latency_profile.h"

namespace bastion {

class Staircase final : public LatencyEstimator {
 public:
  static constexpr double kAlpha = 0.1;  // Step size of each factor.

  // Repeated measurements of a point are averaged. INVALID_ARGUMENT unless the points form a full
  // grid of positive times.
  [[nodiscard]] static absl::StatusOr<Staircase> Make(absl::Span<const ProfilePoint> points);

  absl::Duration Predict(int rows, int context) const override;
  void Curve(int context, absl::Span<double> seconds) const override;
  void Observe(int rows, int context, absl::Duration observed) override;
  std::string_view name() const override { return "staircase"; }

  // The measured row counts, in ascending order.
  [[nodiscard]] const std::vector<int>& row_counts() const { return rows_; }

 private:
  // A location between two knots (measured row counts or measured contexts): value = (1 −
  // weight)·knot[low] + weight·knot[low + 1]. The weight is above 1 beyond the last knot.
  struct Location {
    int low = 0;
    double weight = 0;
  };

  Staircase(std::vector<int> rows, std::vector<int> contexts, std::vector<double> seconds);
  [[nodiscard]] static Location Locate(const std::vector<int>& knots, int at);
  // The corrected time at the measured row count rows_[row_index].
  [[nodiscard]] double SecondsAtKnot(int row_index, const Location& context) const;

  std::vector<int> rows_;            // Measured row counts, ascending.
  std::vector<int> contexts_;        // Measured contexts, ascending.
  std::vector<double> seconds_;      // [rows, contexts], non-decreasing in the rows.
  std::vector<double> row_factors_;  // [rows]
  double factor_ = 1;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_COST_STAIRCASE_H_
