// ExpertEstimator: predicts the verify times of a target with experts: another estimator's
// prediction, corrected by the experts that the next call is expected to touch (expert_cost.h).
// Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_COST_EXPERT_ESTIMATOR_H_
#define BASTION_ORCHESTRATOR_COST_EXPERT_ESTIMATOR_H_

#include <memory>
#include <string_view>
#include <utility>

#include "orchestrator/cost/estimator.h"
#include "orchestrator/cost/expert_cost.h"

namespace bastion {

class ExpertEstimator final : public LatencyEstimator {
 public:
  // `table` predicts what the profile measures. REQUIRES: neither is null.
  ExpertEstimator(std::unique_ptr<LatencyEstimator> table,
                  std::shared_ptr<const ExpertCost> experts)
      : table_(std::move(table)), experts_(std::move(experts)) {}

  absl::Duration Predict(int rows, int context) const override;
  // Never decreases.
  void Curve(int context, absl::Span<double> seconds) const override;
  // `observed` is the time that the call would have taken with the expected experts.
  void Observe(int rows, int context, absl::Duration observed) override;
  std::string_view name() const override { return table_->name(); }

 private:
  std::unique_ptr<LatencyEstimator> table_;
  std::shared_ptr<const ExpertCost> experts_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_COST_EXPERT_ESTIMATOR_H_
