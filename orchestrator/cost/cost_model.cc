#include "orchestrator/cost/cost_model.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "orchestrator/cost/make_estimator.h"
#include "orchestrator/cost/roofline.h"
#include "orchestrator/cost/stage_times.h"

namespace bastion {
namespace {

// True for a call without nodes in a cycle without drafts. It may hold prompts.
bool IsPlain(const VerifySize& size, bool drafted) {
  return !drafted && size.sequences > 0 && size.rows - size.prompts.rows == size.sequences;
}

}  // namespace

absl::StatusOr<CostModel> CostModel::Fit(const TargetInfo& target, const CalibrationTable& table,
                                         const CostModelOptions& options) {
  ASSIGN_OR_RETURN(const Roofline roofline, Roofline::Make(target.dims, table.PeaksFor(target)));
  ASSIGN_OR_RETURN(PaperEstimators paper, PaperEstimators::Make(roofline, table));
  ASSIGN_OR_RETURN(std::unique_ptr<LatencyEstimator> measured,
                   MakeEstimator(options.measured, roofline, table));
  ASSIGN_OR_RETURN(std::unique_ptr<LatencyEstimator> after_draft,
                   MakeEstimator(options.measured, roofline, table));
  return CostModel(std::move(paper), std::move(measured), std::move(after_draft), table);
}

CostModel::CostModel(PaperEstimators paper, std::unique_ptr<LatencyEstimator> measured,
                     std::unique_ptr<LatencyEstimator> after_draft, const CalibrationTable& table)
    : paper_(std::move(paper)),
      verify_(std::move(measured), std::move(after_draft), table.sequence_seconds),
      measured_rows_(table.max_rows()),
      draft_(verify_.plain()),
      further_round_(verify_.plain(), /*rows=*/1) {
  overhead_.Observe(1, table.OverheadSeconds());
  planning_.Observe(1, 0);
}

absl::Duration CostModel::Overhead(int sequences) const {
  return absl::Seconds(std::max(0.0, overhead_.At(sequences)));
}

absl::Duration CostModel::Planning(int sequences) const {
  return absl::Seconds(std::max(0.0, planning_.At(sequences)));
}

double CostModel::PlainFactor(const VerifySize& size) const {
  if (!IsPlain(size, /*drafted=*/false)) return 1;
  return steady_plain_[PlainKind(size)].factor(size.sequences);
}

CycleCost CostModel::PaperCost(int context, PaperEstimator estimator) const {
  return {&paper_.Get(estimator), draft_.Predict(1), Overhead(1) + Planning(1), context};
}

BatchCost CostModel::CostOf(const VerifySize& certain, int max_nodes, int max_drafts) const {
  BatchCost cost;
  cost.sequences = certain.sequences;
  cost.planning_seconds = absl::ToDoubleSeconds(Planning(certain.sequences));
  cost.verify = verify_.Curve(certain, max_nodes, /*drafted=*/false);
  cost.verify_after_draft = verify_.Curve(certain, max_nodes, /*drafted=*/true);
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
  if (IsPlain(certain, /*drafted=*/false)) {
    cost.verify[0] = overhead + PlainFactor(certain) * (cost.verify[0] - overhead);
    cost.plain_known = steady_plain_[PlainKind(certain)].known(certain.sequences);
  }
  if (certain.prompts.rows > 0) {
    const VerifySize trees = certain.decoding();
    const double seconds =
        PlainFactor(trees) * absl::ToDoubleSeconds(verify_.Predict(trees, /*drafted=*/false));
    cost.prompt_seconds = std::max(0.0, cost.verify[0] - overhead - seconds);
  }
  cost.draft = draft_.Curve(max_drafts);
  return cost;
}

absl::Duration CostModel::PredictVerify(const VerifySize& size, bool drafted) const {
  const absl::Duration verify = verify_.Predict(size, drafted);
  return last_plain_ && !drafted ? PlainFactor(size) * verify : verify;
}

absl::Duration CostModel::PredictPlain(const VerifySize& size) const {
  if (size.sequences == 0) return absl::ZeroDuration();
  const VerifySize roots = {
      .sequences = size.sequences, .rows = size.sequences, .context = size.context};
  return Overhead(size.sequences) + PlainFactor(roots) * verify_.Predict(roots, /*drafted=*/false);
}

void CostModel::ObserveVerify(const VerifySize& size, bool drafted, const TimingTrace& trace,
                              const CallerTimes& caller) {
  const bool after_plain = std::exchange(last_plain_, IsPlain(size, drafted));
  if (size.rows < 1) return;
  const StageTimes times = VerifyStages(trace, caller.round_trip);
  if (after_plain && last_plain_ && times.verify > absl::ZeroDuration()) {
    steady_plain_[PlainKind(size)].Observe(size.sequences,
                                           absl::ToDoubleSeconds(verify_.Predict(size, drafted)),
                                           absl::ToDoubleSeconds(times.verify));
  }
  verify_.Observe(size, drafted, times.verify);
  if (size.prompts.rows > 0) return;
  paper_.Observe(size.rows, size.context, times.verify);
  last_drafted_ = drafted;
  // One late reply or preempted thread must not change an average much.
  const auto limited = [](absl::Duration observed, absl::Duration average) {
    constexpr double kMaxRatio = 4;
    const absl::Duration most = kMaxRatio * average + absl::Microseconds(10);
    return absl::ToDoubleSeconds(std::min(observed, most));
  };
  const int sequences = size.sequences;
  overhead_.Observe(sequences, limited(times.commit + times.transfer, Overhead(sequences)));
  if (caller.planned) planning_.Observe(sequences, limited(caller.tree, Planning(sequences)));
}

}  // namespace bastion
