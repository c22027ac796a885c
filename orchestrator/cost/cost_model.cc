#include "orchestrator/cost/cost_model.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "orchestrator/cost/expert_estimator.h"
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

absl::StatusOr<CostModel> CostModel::Fit(const TargetInfo& target, const LatencyProfile& table,
                                         const CostModelOptions& options) {
  ASSIGN_OR_RETURN(const Roofline roofline, Roofline::Make(target.dims, table.PeaksFor(target)));
  ASSIGN_OR_RETURN(PaperEstimators paper, PaperEstimators::Make(roofline, table));
  std::shared_ptr<ExpertCost> experts = ExpertCost::Make(table);
  std::array<std::unique_ptr<LatencyEstimator>, 2> measured;  // Plain, after a draft.
  for (std::unique_ptr<LatencyEstimator>& estimator : measured) {
    ASSIGN_OR_RETURN(estimator, MakeEstimator(options.measured, roofline, table));
    if (experts == nullptr) continue;
    estimator = std::make_unique<ExpertEstimator>(std::move(estimator), experts);
  }
  VerifyCost verify(std::move(measured[0]), std::move(measured[1]), table.sequence_seconds);
  return CostModel(std::move(paper), std::move(verify), std::move(experts), table);
}

CostModel::CostModel(PaperEstimators paper, VerifyCost verify, std::shared_ptr<ExpertCost> experts,
                     const LatencyProfile& table)
    : paper_(std::move(paper)),
      verify_(std::move(verify)),
      experts_(std::move(experts)),
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

absl::Duration CostModel::WithExpectedExperts(const VerifySize& size, absl::Duration verify,
                                              double experts) const {
  if (experts_ == nullptr || size.prompts.rows > 0 || !(experts > 0)) return verify;
  return verify * (experts_->Factor(size.rows, experts_->Expected(size.rows)) /
                   experts_->Factor(size.rows, experts));
}

void CostModel::ObserveVerify(const VerifySize& size, bool drafted, const TimingTrace& trace,
                              const CallerTimes& caller) {
  const bool after_plain = std::exchange(last_plain_, IsPlain(size, drafted));
  if (size.rows < 1) return;
  const StageTimes times = VerifyStages(trace, caller.round_trip);
  const absl::Duration verify = WithExpectedExperts(size, times.verify, trace.experts);
  if (after_plain && last_plain_ && verify > absl::ZeroDuration()) {
    steady_plain_[PlainKind(size)].Observe(size.sequences,
                                           absl::ToDoubleSeconds(verify_.Predict(size, drafted)),
                                           absl::ToDoubleSeconds(verify));
  }
  verify_.Observe(size, drafted, verify);
  if (size.prompts.rows > 0) return;
  if (experts_ != nullptr) experts_->Observe(size.rows, trace.experts);
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
