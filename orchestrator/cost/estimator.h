// LatencyEstimator: predicts how long a verify forward will take (T_verify of the BASTION paper).
// Implementations: static_fit, ema (with and without profile), staircase. MakeEstimator creates
// an estimator by name.
//
// An estimator learns from the timing trace of every verify reply. Thread-compatible: owned by the
// cycle's thread.
#ifndef BASTION_ORCHESTRATOR_COST_ESTIMATOR_H_
#define BASTION_ORCHESTRATOR_COST_ESTIMATOR_H_

#include <cstddef>
#include <string_view>

#include "absl/time/time.h"
#include "absl/types/span.h"

namespace bastion {

class LatencyEstimator {
 public:
  virtual ~LatencyEstimator() = default;

  // `rows` includes the root; `context` is the number of cached tokens. REQUIRES: rows >= 1.
  [[nodiscard]] virtual absl::Duration Predict(int rows, int context) const = 0;

  // Sets seconds[i] to Predict(i + 1, context), in seconds. Policies call this once per cycle.
  virtual void Curve(int context, absl::Span<double> seconds) const {
    for (size_t i = 0; i < seconds.size(); ++i) {
      seconds[i] = absl::ToDoubleSeconds(Predict(static_cast<int>(i) + 1, context));
    }
  }

  // Learns from a verify that took `observed`. Ignores durations that are not positive.
  virtual void Observe(int rows, int context, absl::Duration observed) = 0;

  [[nodiscard]] virtual std::string_view name() const = 0;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_COST_ESTIMATOR_H_
