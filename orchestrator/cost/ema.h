// EMA: T = k·base, with k an exponential moving average of observed / base (BASTION paper,
// appendix H).
//
// This class implements two estimators from the paper. The base of "ema" is the roofline
// (roofline.h). k is then unknown at the start, so the first observation sets it. The base of
// "ema+calib" is the calibrated line of static_fit.h, and k starts at 1. Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_COST_EMA_H_
#define BASTION_ORCHESTRATOR_COST_EMA_H_

#include <memory>
#include <string>
#include <utility>

#include "orchestrator/cost/estimator.h"

namespace bastion {

class EmaEstimator final : public LatencyEstimator {
 public:
  static constexpr double kAlpha = 0.1;
  enum class Start { kFirstObservation, kCalibrated };

  EmaEstimator(std::string name, std::unique_ptr<const LatencyEstimator> base, Start start)
      : name_(std::move(name)), base_(std::move(base)), started_(start == Start::kCalibrated) {}

  absl::Duration Predict(int rows, int context) const override {
    return factor_ * base_->Predict(rows, context);
  }
  void Observe(int rows, int context, absl::Duration observed) override {
    const absl::Duration base = base_->Predict(rows, context);
    if (observed <= absl::ZeroDuration() || base <= absl::ZeroDuration()) return;
    const double ratio = absl::FDivDuration(observed, base);
    factor_ = started_ ? (1 - kAlpha) * factor_ + kAlpha * ratio : ratio;
    started_ = true;
  }
  std::string_view name() const override { return name_; }

  // k.
  [[nodiscard]] double factor() const { return factor_; }

 private:
  const std::string name_;
  const std::unique_ptr<const LatencyEstimator> base_;
  bool started_;
  double factor_ = 1;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_COST_EMA_H_
