// EMA: T = k·base, with k an exponential moving average of observed / base (BASTION paper, appendix
// H.4):  k ← (1 − α)·k + α·(observed / base).
//
// This class implements two estimators from the paper. The base of "ema" is the roofline
// (roofline.h). k is then unknown at the start, so the first observation sets it. The base of
// "ema+calib" is the calibrated line of static_fit.h, and k starts at 1. The paper names neither
// the first k nor α. Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_COST_EMA_H_
#define BASTION_ORCHESTRATOR_COST_EMA_H_

#include <memory>
#include <string>
#include <utility>

#include "orchestrator/cost/estimator.h"

namespace bastion {

class EmaEstimator final : public LatencyEstimator {
 public:
  static constexpr double kAlpha = 0.1;  // The default of α.
  enum class Start { kFirstObservation, kCalibrated };

  // REQUIRES: 0 < alpha <= 1.
  EmaEstimator(std::string name, std::unique_ptr<const LatencyEstimator> base, Start start,
               double alpha = kAlpha)
      : name_(std::move(name)),
        base_(std::move(base)),
        alpha_(alpha),
        started_(start == Start::kCalibrated) {}

  absl::Duration Predict(int rows, int context) const override {
    return factor_ * base_->Predict(rows, context);
  }
  void Observe(int rows, int context, absl::Duration observed) override {
    const absl::Duration base = base_->Predict(rows, context);
    if (observed <= absl::ZeroDuration() || base <= absl::ZeroDuration()) return;
    const double ratio = absl::FDivDuration(observed, base);
    factor_ = started_ ? (1 - alpha_) * factor_ + alpha_ * ratio : ratio;
    started_ = true;
  }
  std::string_view name() const override { return name_; }

  // k.
  [[nodiscard]] double factor() const { return factor_; }

 private:
  const std::string name_;
  const std::unique_ptr<const LatencyEstimator> base_;
  const double alpha_;
  bool started_;
  double factor_ = 1;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_COST_EMA_H_
