// RunningCost: an exponential moving average of a measured duration. Used for the two costs that
// are modeled as constant: T_draft (one Expand call) and T_aux (commit and messages of a verify
// call).
//
// An observation is capped at four times the average, so that a single late reply changes the
// average only a little. Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_COST_RUNNING_COST_H_
#define BASTION_ORCHESTRATOR_COST_RUNNING_COST_H_

#include <algorithm>

#include "absl/time/time.h"

namespace bastion {

class RunningCost {
 public:
  static constexpr double kAlpha = 0.1;
  static constexpr double kMaxRatio = 4.0;  // Cap of observed / average.

  // If `start` is missing or 0, the first observation becomes the average.
  RunningCost() = default;
  explicit RunningCost(absl::Duration start) : average_(start) {}

  [[nodiscard]] absl::Duration Predict() const { return average_; }

  // Ignores durations that are not positive.
  void Observe(absl::Duration observed) {
    if (observed <= absl::ZeroDuration()) return;
    if (average_ <= absl::ZeroDuration()) {
      average_ = observed;
    } else {
      average_ += kAlpha * (std::min(observed, kMaxRatio * average_) - average_);
    }
  }

 private:
  absl::Duration average_ = absl::ZeroDuration();
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_COST_RUNNING_COST_H_
