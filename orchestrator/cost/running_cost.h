// RunningCost: an exponential moving average of a measured duration that depends on nothing we
// model: T_draft (one Expand call) and T_aux (what a verify call costs beside the verify).
//
// One observation counts for at most four times the average, so that a single late reply is not
// taken for the new normal. Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_COST_RUNNING_COST_H_
#define BASTION_ORCHESTRATOR_COST_RUNNING_COST_H_

#include <algorithm>

#include "absl/time/time.h"

namespace bastion {

class RunningCost {
 public:
  static constexpr double kAlpha = 0.1;
  static constexpr double kMostPerObservation = 4.0;

  // Without a start, or with zero, the first observation is taken as it is.
  RunningCost() = default;
  explicit RunningCost(absl::Duration start) : average_(start) {}

  [[nodiscard]] absl::Duration Predict() const { return average_; }

  // Durations that are not positive are ignored.
  void Observe(absl::Duration observed) {
    if (observed <= absl::ZeroDuration()) return;
    if (average_ <= absl::ZeroDuration()) {
      average_ = observed;
    } else {
      average_ += kAlpha * (std::min(observed, kMostPerObservation * average_) - average_);
    }
  }

 private:
  absl::Duration average_ = absl::ZeroDuration();
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_COST_RUNNING_COST_H_
