// Creates latency estimators by name.
#ifndef BASTION_ORCHESTRATOR_COST_MAKE_ESTIMATOR_H_
#define BASTION_ORCHESTRATOR_COST_MAKE_ESTIMATOR_H_

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "orchestrator/cost/ema.h"
#include "orchestrator/cost/estimator.h"
#include "orchestrator/cost/latency_profile.h"
#include "orchestrator/cost/roofline.h"

namespace bastion {

// `name` is "roofline", "static", "ema", "ema+calib" (all four from the BASTION paper) or
// "staircase" (ours). `alpha` is the step of the two that average. INVALID_ARGUMENT for any other
// name, or a table that the estimator cannot be fitted to. "roofline" and "ema" need no table.
[[nodiscard]] absl::StatusOr<std::unique_ptr<LatencyEstimator>> MakeEstimator(
    std::string_view name, const Roofline& roofline, const LatencyProfile& table,
    double alpha = EmaEstimator::kAlpha);

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_COST_MAKE_ESTIMATOR_H_
