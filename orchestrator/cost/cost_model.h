// CostModel: predicts the cost of draft and verify calls to one drafter and one verifier, and
// learns from every call. All sequences share it. Thread-compatible: owned by the cycle's thread.
#ifndef BASTION_ORCHESTRATOR_COST_COST_MODEL_H_
#define BASTION_ORCHESTRATOR_COST_COST_MODEL_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/stages/stage_data.h"
#include "orchestrator/cost/calibration_table.h"
#include "orchestrator/cost/cycle_cost.h"
#include "orchestrator/cost/estimator.h"
#include "orchestrator/cost/running_cost.h"

namespace bastion {

// Names of estimators (make_estimator.h).
struct CostModelOptions {
  std::string paper = "static";        // For the policy `bastion`.
  std::string measured = "staircase";  // For all other policies.
};

class CostModel {
 public:
  // The two estimators of CostModelOptions.
  enum class Estimator { kPaper, kMeasured };

  // INVALID_ARGUMENT for an unknown estimator name, and for a target or table that an estimator
  // cannot be fitted to.
  [[nodiscard]] static absl::StatusOr<CostModel> Fit(const TargetInfo& target,
                                                     const CalibrationTable& table,
                                                     const CostModelOptions& options = {});

  // The predicted costs of a cycle over `context` cached tokens. Valid until the next ObserveVerify
  // or ObserveDraft.
  [[nodiscard]] CycleCost At(Estimator estimator, int context) const;

  // The largest measured row count. Predictions beyond it are extrapolated.
  [[nodiscard]] int measured_rows() const { return measured_rows_; }

  // Learns from a verify call. `round_trip` is the time that the caller waited. Time spent in the
  // engine's queue does not count as a cost.
  void ObserveVerify(const TimingTrace& trace, absl::Duration round_trip);
  // Learns from an Expand call. `round_trip` is the time that the caller waited.
  void ObserveDraft(absl::Duration round_trip) { draft_.Observe(round_trip); }

 private:
  CostModel(std::unique_ptr<LatencyEstimator> paper, std::unique_ptr<LatencyEstimator> measured,
            const CalibrationTable& table);

  std::unique_ptr<LatencyEstimator> paper_;
  std::unique_ptr<LatencyEstimator> measured_;
  int measured_rows_;
  RunningCost overhead_;
  RunningCost draft_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_COST_COST_MODEL_H_
