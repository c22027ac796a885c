// A latency estimator with a curve that the test sets: milliseconds by rows. Header-only.
#ifndef BASTION_TESTS_SUPPORT_CURVE_ESTIMATOR_H_
#define BASTION_TESTS_SUPPORT_CURVE_ESTIMATOR_H_

#include <functional>
#include <utility>

#include "orchestrator/cost/cycle_cost.h"
#include "orchestrator/cost/estimator.h"

namespace bastion::testing {

class CurveEstimator final : public LatencyEstimator {
 public:
  explicit CurveEstimator(std::function<double(int rows)> milliseconds)
      : milliseconds_(std::move(milliseconds)) {}
  absl::Duration Predict(int rows, int /*context*/) const override {
    return absl::Milliseconds(milliseconds_(rows));
  }
  void Observe(int /*rows*/, int /*context*/, absl::Duration /*observed*/) override {}
  std::string_view name() const override { return "curve"; }

  CycleCost Cost(double draft_ms, double overhead_ms) const {
    return {this, absl::Milliseconds(draft_ms), absl::Milliseconds(overhead_ms), 0};
  }

 private:
  std::function<double(int rows)> milliseconds_;
};

// A staircase with tiles of 16 rows and a small slope on each step, in milliseconds.
inline double TileStairs(int rows) { return 10.0 + 3.0 * ((rows - 1) / 16) + 0.02 * rows; }

}  // namespace bastion::testing

#endif  // BASTION_TESTS_SUPPORT_CURVE_ESTIMATOR_H_
