#include "orchestrator/cost/expert_estimator.h"

#include <algorithm>
#include <vector>

#include "absl/types/span.h"

namespace bastion {

absl::Duration ExpertEstimator::Predict(int rows, int context) const {
  std::vector<double> curve(rows);
  Curve(context, absl::MakeSpan(curve));
  return absl::Seconds(curve.back());
}

void ExpertEstimator::Curve(int context, absl::Span<double> seconds) const {
  table_->Curve(context, seconds);
  // Experts change the time of the matrix products, and not that of attention.
  std::vector<double> products(seconds.size());
  table_->Curve(/*context=*/0, absl::MakeSpan(products));
  double most = 0;
  for (size_t i = 0; i < seconds.size(); ++i) {
    const int rows = static_cast<int>(i) + 1;
    seconds[i] += (experts_->Factor(rows, experts_->Expected(rows)) - 1) * products[i];
    most = std::max(most, seconds[i]);
    seconds[i] = most;
  }
}

void ExpertEstimator::Observe(int rows, int context, absl::Duration observed) {
  const absl::Duration table = table_->Predict(rows, context);
  const double extra = experts_->Factor(rows, experts_->Expected(rows)) - 1;
  const absl::Duration predicted = table + extra * table_->Predict(rows, /*context=*/0);
  if (predicted <= absl::ZeroDuration()) return;
  table_->Observe(rows, context, observed * absl::FDivDuration(table, predicted));
}

}  // namespace bastion
