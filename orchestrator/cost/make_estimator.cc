#include "orchestrator/cost/make_estimator.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "orchestrator/cost/staircase.h"
#include "orchestrator/cost/static_fit.h"

namespace bastion {

absl::StatusOr<std::unique_ptr<LatencyEstimator>> MakeEstimator(std::string_view name,
                                                                const Roofline& roofline,
                                                                const LatencyProfile& table,
                                                                double alpha) {
  if (name == "roofline") return std::make_unique<StaticFit>(roofline);
  if (name == "ema") {
    return std::make_unique<EmaEstimator>("ema", std::make_unique<StaticFit>(roofline),
                                          EmaEstimator::Start::kFirstObservation, alpha);
  }
  if (name == "staircase") {
    ASSIGN_OR_RETURN(Staircase staircase, Staircase::Make(table.points));
    return std::make_unique<Staircase>(std::move(staircase));
  }
  if (name == "static" || name == "ema+calib") {
    ASSIGN_OR_RETURN(const StaticLine line, StaticFit::Fit(roofline, table.points));
    auto fitted = std::make_unique<StaticFit>(roofline, line);
    if (name == "static") return fitted;
    return std::make_unique<EmaEstimator>("ema+calib", std::move(fitted),
                                          EmaEstimator::Start::kCalibrated, alpha);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown latency estimator \"", std::string(name),
                   "\"; use roofline, static, ema, ema+calib or staircase"));
}

}  // namespace bastion
