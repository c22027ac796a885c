// CostModel: predicts the cost of draft and verify calls to one drafter and one verifier, and
// learns from every call. All sequences share it. Thread-compatible: owned by the cycle's thread.
//
// A verify call may hold rows of several sequences. The estimators are calibrated with one
// sequence, so the cost of a batch is put together from two parts:
//   - The matrix products depend on the number of all rows: V(rows) without context.
//   - Attention depends on each sequence: the root reads the sequence's keys, which costs
//     a = V(1, context) − V(1); every further row costs b = (V(1 + k, context) − V(1 + k) − a) / k.
//     Both are nearly linear in the context, so the mean context of the batch is enough.
// A verify that follows a draft finds other data in the caches, so it has an estimator of its own.
#ifndef BASTION_ORCHESTRATOR_COST_COST_MODEL_H_
#define BASTION_ORCHESTRATOR_COST_COST_MODEL_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/stages/stage_data.h"
#include "orchestrator/cost/batch_cost.h"
#include "orchestrator/cost/calibration_table.h"
#include "orchestrator/cost/cycle_cost.h"
#include "orchestrator/cost/draft_cost.h"
#include "orchestrator/cost/estimator.h"
#include "orchestrator/cost/fading_line.h"

namespace bastion {

// Names of estimators (make_estimator.h).
struct CostModelOptions {
  std::string paper = "static";        // For the policy `bastion`.
  std::string measured = "staircase";  // For all other policies.
};

// The size of a verify call.
struct VerifySize {
  int sequences = 1;
  int rows = 1;     // All sequences together, roots included.
  int context = 0;  // Mean cached tokens of a sequence.
};

// What the caller of a verify measured.
struct CallerTimes {
  absl::Duration round_trip;  // Waiting for the reply.
  absl::Duration tree;        // Growing the trees.
};

class CostModel {
 public:
  // INVALID_ARGUMENT for an unknown estimator name, and for a target or table that an estimator
  // cannot be fitted to.
  [[nodiscard]] static absl::StatusOr<CostModel> Fit(const TargetInfo& target,
                                                     const CalibrationTable& table,
                                                     const CostModelOptions& options = {});

  // The predicted costs of a cycle of one sequence over `context` cached tokens, by the paper's
  // estimator. Valid until the next observation.
  [[nodiscard]] CycleCost PaperCost(int context) const;
  // The predicted costs of a cycle that verifies the rows of `certain` and up to `max_nodes`
  // further nodes, and drafts for up to `max_drafts` sequences.
  [[nodiscard]] BatchCost CostOf(const VerifySize& certain, int max_nodes, int max_drafts) const;
  // The verify stage of a call (TimingTrace::verify()). `drafted`: the cycle drafted before it.
  [[nodiscard]] absl::Duration PredictVerify(const VerifySize& size, bool drafted) const;

  // The largest measured row count. Predictions beyond it are extrapolated.
  [[nodiscard]] int measured_rows() const { return measured_rows_; }

  // Learns from a verify call. Time spent in the engine's queue does not count as a cost.
  void ObserveVerify(const VerifySize& size, bool drafted, const TimingTrace& trace,
                     const CallerTimes& caller);
  // The cost of Expand calls, to learn from.
  [[nodiscard]] DraftCost& draft() { return draft_; }
  [[nodiscard]] const DraftCost& draft() const { return draft_; }

 private:
  CostModel(std::unique_ptr<LatencyEstimator> paper, std::unique_ptr<LatencyEstimator> measured,
            std::unique_ptr<LatencyEstimator> after_draft, const CalibrationTable& table);
  // T_aux: commit, messages and tree construction of a cycle.
  [[nodiscard]] absl::Duration Overhead(int sequences) const;
  // What the contexts of all sequences add to a call of `size`, in seconds.
  [[nodiscard]] static double AttentionSeconds(const LatencyEstimator& verify,
                                               const VerifySize& size);
  [[nodiscard]] static absl::Duration Predict(const LatencyEstimator& verify,
                                              const VerifySize& size);
  // T(0), T(1), … of CostOf by the estimator `verify`.
  [[nodiscard]] std::vector<double> VerifyCurve(const LatencyEstimator& verify,
                                                const VerifySize& certain, int max_nodes) const;
  [[nodiscard]] LatencyEstimator& Measured(bool drafted) const {
    return drafted ? *after_draft_ : *measured_;
  }

  std::unique_ptr<LatencyEstimator> paper_;
  std::unique_ptr<LatencyEstimator> measured_;
  std::unique_ptr<LatencyEstimator> after_draft_;  // Like measured_, for cycles that draft.
  bool last_drafted_ = false;                      // The last verify followed a draft.
  int measured_rows_;
  FadingLine overhead_;  // Seconds, over sequences.
  DraftCost draft_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_COST_COST_MODEL_H_
