// DraftCost: predicts how long an Expand call for m sequences takes (T_draft of the BASTION paper).
//
// A draft runs a block of a few rows per sequence through the drafter, so its cost has the shape of
// the verify cost of as many rows: nearly constant while memory is the limit, then linear. The
// scale of that shape is the smallest that the first kScaling observations show: noise only adds
// time, and a cost that is too high would prevent the drafts that correct it. Later observations
// correct the curve like verify times (staircase.h), at 1, 2, 4, … sequences. Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_COST_DRAFT_COST_H_
#define BASTION_ORCHESTRATOR_COST_DRAFT_COST_H_

#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "orchestrator/cost/estimator.h"
#include "orchestrator/cost/staircase.h"

namespace bastion {

class DraftCost {
 public:
  static constexpr int kScaling = 8;

  // Takes the shape from the current predictions of `verify`.
  explicit DraftCost(const LatencyEstimator& verify);

  // D(m). D(0) = 0.
  [[nodiscard]] absl::Duration Predict(int sequences) const;
  // [max_sequences + 1] D(0), D(1), …, in seconds. Never decreases.
  [[nodiscard]] std::vector<double> Curve(int max_sequences) const;

  // Learns from an Expand call for `sequences` >= 1 sequences. Ignores times that are not positive.
  void Observe(int sequences, absl::Duration observed);
  // Learns from a call that failed after `spent`: drafts are at least this expensive. A call that
  // fails fast says nothing.
  void ObserveFailure(int sequences, absl::Duration spent);

 private:
  std::vector<CalibrationPoint> shape_;  // Scaled. Its rows are sequences.
  Staircase curve_;
  int observations_ = 0;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_COST_DRAFT_COST_H_
