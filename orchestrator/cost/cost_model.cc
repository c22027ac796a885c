#include "orchestrator/cost/cost_model.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "orchestrator/cost/make_estimator.h"
#include "orchestrator/cost/roofline.h"
#include "orchestrator/cost/stage_times.h"

namespace bastion {
namespace {

// True for a call of roots alone in a cycle without drafts.
bool IsPlain(const VerifySize& size, bool drafted) {
  return !drafted && size.sequences > 0 && size.rows == size.sequences;
}

}  // namespace

absl::StatusOr<CostModel> CostModel::Fit(const TargetInfo& target, const CalibrationTable& table,
                                         const CostModelOptions& options) {
  ASSIGN_OR_RETURN(const Roofline roofline, Roofline::Make(target.dims, target.peaks));
  ASSIGN_OR_RETURN(std::unique_ptr<LatencyEstimator> paper,
                   MakeEstimator(options.paper, roofline, table));
  ASSIGN_OR_RETURN(std::unique_ptr<LatencyEstimator> measured,
                   MakeEstimator(options.measured, roofline, table));
  ASSIGN_OR_RETURN(std::unique_ptr<LatencyEstimator> after_draft,
                   MakeEstimator(options.measured, roofline, table));
  return CostModel(std::move(paper), std::move(measured), std::move(after_draft), table);
}

CostModel::CostModel(std::unique_ptr<LatencyEstimator> paper,
                     std::unique_ptr<LatencyEstimator> measured,
                     std::unique_ptr<LatencyEstimator> after_draft, const CalibrationTable& table)
    : paper_(std::move(paper)),
      verify_(std::move(measured), std::move(after_draft), table.sequence_seconds),
      measured_rows_(table.max_rows()),
      draft_(verify_.plain()) {
  overhead_.Observe(1, table.OverheadSeconds());
}

absl::Duration CostModel::Overhead(int sequences) const {
  return absl::Seconds(std::max(0.0, overhead_.At(sequences)));
}

CycleCost CostModel::PaperCost(int context) const {
  return {paper_.get(), draft_.Predict(1), Overhead(1), context};
}

BatchCost CostModel::CostOf(const VerifySize& certain, int max_nodes, int max_drafts) const {
  BatchCost cost;
  cost.sequences = certain.sequences;
  cost.verify = verify_.Curve(certain, max_nodes, /*drafted=*/false);
  cost.verify_after_draft = verify_.Curve(certain, max_nodes, /*drafted=*/true);
  const bool plain_start = IsPlain(certain, /*drafted=*/false);
  // A draft never makes the verify faster. If the two curves disagree, the one that was observed
  // last is right.
  const double overhead = absl::ToDoubleSeconds(Overhead(certain.sequences));
  for (size_t n = 0; n < cost.verify.size(); ++n) {
    double& plain = cost.verify[n];
    double& after_draft = cost.verify_after_draft[n];
    if (last_drafted_) {
      plain = std::min(plain, after_draft);
    } else {
      after_draft = std::max(plain, after_draft);
    }
    plain += overhead;
    after_draft += overhead;
  }
  if (plain_start) {
    cost.verify[0] =
        overhead + steady_plain_.factor(certain.sequences) * (cost.verify[0] - overhead);
    cost.plain_known = steady_plain_.known(certain.sequences);
  }
  if (certain.prompts.rows > 0) {
    VerifySize trees = certain;
    trees.rows -= certain.prompts.rows;
    trees.prompts = {};
    const double seconds = steady_plain_.factor(std::max(1, trees.sequences)) *
                           absl::ToDoubleSeconds(verify_.Predict(trees, /*drafted=*/false));
    cost.prompt_seconds = std::max(0.0, cost.verify[0] - overhead - seconds);
  }
  cost.draft = draft_.Curve(max_drafts);
  return cost;
}

absl::Duration CostModel::PredictVerify(const VerifySize& size, bool drafted) const {
  const absl::Duration verify = verify_.Predict(size, drafted);
  if (!last_plain_ || !IsPlain(size, drafted)) return verify;
  return steady_plain_.factor(size.sequences) * verify;
}

void CostModel::ObserveVerify(const VerifySize& size, bool drafted, const TimingTrace& trace,
                              const CallerTimes& caller) {
  const bool after_plain = std::exchange(last_plain_, IsPlain(size, drafted));
  if (size.rows < 1) return;
  const StageTimes times = VerifyStages(trace, caller.round_trip);
  if (after_plain && last_plain_ && times.verify > absl::ZeroDuration()) {
    steady_plain_.Observe(size.sequences, absl::ToDoubleSeconds(verify_.Predict(size, drafted)),
                          absl::ToDoubleSeconds(times.verify));
  }
  verify_.Observe(size, drafted, times.verify);
  if (size.prompts.rows > 0) return;
  paper_->Observe(size.rows, size.context, times.verify);
  last_drafted_ = drafted;
  // One late reply must not change the average much.
  constexpr double kMaxRatio = 4;
  const absl::Duration most = kMaxRatio * Overhead(size.sequences) + absl::Microseconds(10);
  const absl::Duration overhead = times.commit + times.transfer + caller.tree;
  overhead_.Observe(size.sequences, absl::ToDoubleSeconds(std::min(overhead, most)));
}

}  // namespace bastion
