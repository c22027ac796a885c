#include "orchestrator/cost/paper_estimators.h"

#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"
#include "orchestrator/cost/make_estimator.h"

namespace bastion {
namespace {

using Kind = PaperEstimator::Kind;

const char* NameOf(Kind kind) {
  switch (kind) {
    case Kind::kStatic:
      return "static";
    case Kind::kEma:
      return "ema";
    case Kind::kEmaCalib:
      return "ema+calib";
  }
  return "";
}

}  // namespace

absl::StatusOr<PaperEstimators> PaperEstimators::Make(const Roofline& roofline,
                                                      const LatencyProfile& table) {
  PaperEstimators estimators(roofline, table);
  for (const Kind kind : {Kind::kStatic, Kind::kEma, Kind::kEmaCalib}) {
    const PaperEstimator estimator = {kind};
    ASSIGN_OR_RETURN(estimators.estimators_[estimator], estimators.Create(estimator));
  }
  return estimators;
}

absl::StatusOr<std::unique_ptr<LatencyEstimator>> PaperEstimators::Create(
    PaperEstimator estimator) const {
  return MakeEstimator(NameOf(estimator.kind), roofline_, table_, estimator.alpha_percent / 100.0);
}

const LatencyEstimator& PaperEstimators::Get(PaperEstimator estimator) const {
  if (estimator.kind == Kind::kStatic) estimator.alpha_percent = PaperEstimator::kDefaultAlpha;
  std::unique_ptr<LatencyEstimator>& found = estimators_[estimator];
  if (found == nullptr) {
    CHECK(estimator.alpha_percent >= 1 && estimator.alpha_percent <= 100)
        << "alpha is " << estimator.alpha_percent << " percent; it must be from 1 to 100";
    found = *Create(estimator);  // Make() has fitted the same table.
  }
  return *found;
}

void PaperEstimators::Observe(int rows, int context, absl::Duration observed) {
  for (const auto& [name, estimator] : estimators_) estimator->Observe(rows, context, observed);
}

}  // namespace bastion
