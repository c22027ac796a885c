// PaperEstimators: the latency estimators of the BASTION paper (section 2.4, appendix H.4). Each
// learns from every cycle, also from those of other policies.
//
//   kStatic     T = a·R(s, c) + b, fitted to the profile (static_fit.h): the paper's default
//   kEma        T = k·R(s, c), with a moving average k (ema.h): needs no profile
//   kEmaCalib   T = k·(a·R(s, c) + b): the moving average corrects the calibrated line
//
// Not thread-safe: even Get() creates estimators.
#ifndef BASTION_ORCHESTRATOR_COST_PAPER_ESTIMATORS_H_
#define BASTION_ORCHESTRATOR_COST_PAPER_ESTIMATORS_H_

#include <compare>
#include <map>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "orchestrator/cost/estimator.h"
#include "orchestrator/cost/latency_profile.h"
#include "orchestrator/cost/roofline.h"

namespace bastion {

// Names an estimator. α has whole percents, so that requests cannot create an unlimited number of
// estimators.
struct PaperEstimator {
  enum class Kind { kStatic, kEma, kEmaCalib };
  static constexpr int kDefaultAlpha = 10;

  Kind kind = Kind::kStatic;
  int alpha_percent = kDefaultAlpha;  // α of the moving average: 1 to 100. kStatic ignores it.

  friend auto operator<=>(const PaperEstimator&, const PaperEstimator&) = default;
};

class PaperEstimators {
 public:
  // INVALID_ARGUMENT for a table without points.
  [[nodiscard]] static absl::StatusOr<PaperEstimators> Make(const Roofline& roofline,
                                                            const LatencyProfile& table);

  // Valid as long as this object. An α that is asked for the first time starts to learn now.
  // REQUIRES: alpha_percent is from 1 to 100.
  [[nodiscard]] const LatencyEstimator& Get(PaperEstimator estimator) const;
  // Teaches all estimators. See LatencyEstimator::Observe.
  void Observe(int rows, int context, absl::Duration observed);

 private:
  PaperEstimators(const Roofline& roofline, LatencyProfile table)
      : roofline_(roofline), table_(std::move(table)) {}
  [[nodiscard]] absl::StatusOr<std::unique_ptr<LatencyEstimator>> Create(
      PaperEstimator estimator) const;

  Roofline roofline_;
  LatencyProfile table_;
  mutable std::map<PaperEstimator, std::unique_ptr<LatencyEstimator>> estimators_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_COST_PAPER_ESTIMATORS_H_
