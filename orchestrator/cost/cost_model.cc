#include "orchestrator/cost/cost_model.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "orchestrator/cost/make_estimator.h"
#include "orchestrator/cost/roofline.h"
#include "orchestrator/cost/stage_times.h"

namespace bastion {
namespace {

// Rows beyond the root at which the attention cost of a row is read off.
constexpr int kAttentionRows = 8;

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
      measured_(std::move(measured)),
      after_draft_(std::move(after_draft)),
      measured_rows_(table.max_rows()),
      draft_(*measured_) {
  overhead_.Observe(1, table.OverheadSeconds());
}

absl::Duration CostModel::Overhead(int sequences) const {
  return absl::Seconds(std::max(0.0, overhead_.At(sequences)));
}

CycleCost CostModel::PaperCost(int context) const {
  return {paper_.get(), draft_.Predict(1), Overhead(1), context};
}

double CostModel::AttentionSeconds(const LatencyEstimator& verify, const VerifySize& size) {
  const auto extra = [&](int rows) {
    return absl::ToDoubleSeconds(verify.Predict(rows, size.context) - verify.Predict(rows, 0));
  };
  const double root = extra(1);
  const double row = std::max(0.0, extra(1 + kAttentionRows) - root) / kAttentionRows;
  return size.sequences * root + (size.rows - size.sequences) * row;
}

absl::Duration CostModel::Predict(const LatencyEstimator& verify, const VerifySize& size) {
  if (size.sequences == 1) return verify.Predict(size.rows, size.context);
  return verify.Predict(size.rows, 0) + absl::Seconds(AttentionSeconds(verify, size));
}

absl::Duration CostModel::PredictVerify(const VerifySize& size, bool drafted) const {
  return Predict(Measured(drafted), size);
}

std::vector<double> CostModel::VerifyCurve(const LatencyEstimator& verify,
                                           const VerifySize& certain, int max_nodes) const {
  const bool alone = certain.sequences == 1;
  std::vector<double> curve(static_cast<size_t>(certain.rows) + max_nodes);
  verify.Curve(alone ? certain.context : 0, absl::MakeSpan(curve));
  curve.erase(curve.begin(), curve.begin() + (certain.rows - 1));
  double seconds = absl::ToDoubleSeconds(Overhead(certain.sequences));
  double row = 0;  // Attention of one more row.
  if (!alone) {
    VerifySize wider = certain;
    wider.rows += kAttentionRows;
    const double attention = AttentionSeconds(verify, certain);
    row = (AttentionSeconds(verify, wider) - attention) / kAttentionRows;
    seconds += attention;
  }
  for (double& cost : curve) {
    cost += seconds;
    seconds += row;
  }
  return curve;
}

BatchCost CostModel::CostOf(const VerifySize& certain, int max_nodes, int max_drafts) const {
  BatchCost cost;
  cost.sequences = certain.sequences;
  cost.verify = VerifyCurve(*measured_, certain, max_nodes);
  cost.verify_after_draft = VerifyCurve(*after_draft_, certain, max_nodes);
  // A draft never makes the verify faster. If the two curves disagree, the one that was observed
  // last is right.
  for (size_t n = 0; n < cost.verify.size(); ++n) {
    double& plain = cost.verify[n];
    double& after_draft = cost.verify_after_draft[n];
    if (last_drafted_) {
      plain = std::min(plain, after_draft);
    } else {
      after_draft = std::max(plain, after_draft);
    }
  }
  cost.draft = draft_.Curve(max_drafts);
  return cost;
}

void CostModel::ObserveVerify(const VerifySize& size, bool drafted, const TimingTrace& trace,
                              const CallerTimes& caller) {
  if (size.rows < 1) return;
  const StageTimes times = VerifyStages(trace, caller.round_trip);
  paper_->Observe(size.rows, size.context, times.verify);
  // The estimator predicts for one sequence, so it learns the relative error of the whole call.
  LatencyEstimator& verify = Measured(drafted);
  last_drafted_ = drafted;
  const absl::Duration predicted = Predict(verify, size);
  if (predicted > absl::ZeroDuration()) {
    verify.Observe(
        size.rows, size.context,
        verify.Predict(size.rows, size.context) * absl::FDivDuration(times.verify, predicted));
  }
  // One late reply must not change the average much.
  constexpr double kMaxRatio = 4;
  const absl::Duration most = kMaxRatio * Overhead(size.sequences) + absl::Microseconds(10);
  const absl::Duration overhead = times.commit + times.transfer + caller.tree;
  overhead_.Observe(size.sequences, absl::ToDoubleSeconds(std::min(overhead, most)));
}

}  // namespace bastion
