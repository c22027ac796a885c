#include "orchestrator/cost/cost_model.h"

#include <numeric>
#include <utility>

#include "common/base/status.h"
#include "orchestrator/cost/make_estimator.h"
#include "orchestrator/cost/roofline.h"
#include "orchestrator/cost/stage_times.h"

namespace bastion {

absl::StatusOr<CostModel> CostModel::Fit(const TargetInfo& target, const CalibrationTable& table,
                                         const CostModelOptions& options) {
  ASSIGN_OR_RETURN(const Roofline roofline, Roofline::Make(target.dims, target.peaks));
  ASSIGN_OR_RETURN(std::unique_ptr<LatencyEstimator> paper,
                   MakeEstimator(options.paper, roofline, table));
  ASSIGN_OR_RETURN(std::unique_ptr<LatencyEstimator> measured,
                   MakeEstimator(options.measured, roofline, table));
  return CostModel(std::move(paper), std::move(measured), table);
}

CostModel::CostModel(std::unique_ptr<LatencyEstimator> paper,
                     std::unique_ptr<LatencyEstimator> measured, const CalibrationTable& table)
    : paper_(std::move(paper)),
      measured_(std::move(measured)),
      measured_rows_(table.max_rows()),
      overhead_(absl::Seconds(table.OverheadSeconds())) {}

CycleCost CostModel::At(Estimator estimator, int context) const {
  const LatencyEstimator* verify = estimator == Estimator::kPaper ? paper_.get() : measured_.get();
  return {verify, draft_.Predict(), overhead_.Predict(), context};
}

void CostModel::ObserveVerify(const TimingTrace& trace, absl::Duration round_trip) {
  if (trace.rows < 1) return;
  // For several sequences in one forward, the estimators use the mean context.
  const int64_t cached = std::accumulate(trace.contexts.begin(), trace.contexts.end(), int64_t{0});
  const auto sequences = static_cast<int64_t>(trace.contexts.size());
  const int context = sequences == 0 ? 0 : static_cast<int>(cached / sequences);
  const StageTimes times = VerifyStages(trace, round_trip);
  paper_->Observe(trace.rows, context, times.verify);
  measured_->Observe(trace.rows, context, times.verify);
  overhead_.Observe(times.commit + times.transfer);
}

}  // namespace bastion
