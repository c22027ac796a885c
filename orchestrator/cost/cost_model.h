// CostModel: all that is known about the costs of one drafter and one verifier, learned from every
// call. Shared by the sequences they serve. Thread-compatible: one owner, the cycle's thread.
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

// Names of MakeEstimator (orchestrator/latency).
struct CostModelOptions {
  std::string paper = "static";        // Used by the policy `bastion`.
  std::string measured = "staircase";  // Used by all others.
};

class CostModel {
 public:
  // Whose estimator: that of BASTION's procedure, or ours.
  enum class Source { kPaper, kMeasured };

  // INVALID_ARGUMENT for unknown estimators, and for facts or a table that they cannot be fitted
  // to.
  [[nodiscard]] static absl::StatusOr<CostModel> Fit(const TargetInfo& target,
                                                     const CalibrationTable& table,
                                                     const CostModelOptions& options = {});

  // Valid until the next Observe.
  [[nodiscard]] CycleCost At(Source source, int context) const;

  // The most rows that were measured: beyond them predictions are extrapolations.
  [[nodiscard]] int measured_rows() const { return measured_rows_; }

  // A verify call, and how long its caller waited. Waiting for the engine is not counted.
  void ObserveVerify(const TimingTrace& trace, absl::Duration round_trip);
  // An Expand call, as its caller saw it.
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
