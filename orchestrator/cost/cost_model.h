// CostModel: predicts the cost of draft and verify calls to one drafter and one verifier, and
// learns from every call. All sequences share it. Thread-compatible: owned by the cycle's thread.
#ifndef BASTION_ORCHESTRATOR_COST_COST_MODEL_H_
#define BASTION_ORCHESTRATOR_COST_COST_MODEL_H_

#include <array>
#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/stages/stage_data.h"
#include "orchestrator/cost/batch_cost.h"
#include "orchestrator/cost/cycle_cost.h"
#include "orchestrator/cost/draft_cost.h"
#include "orchestrator/cost/estimator.h"
#include "orchestrator/cost/expert_cost.h"
#include "orchestrator/cost/fading_line.h"
#include "orchestrator/cost/latency_profile.h"
#include "orchestrator/cost/paper_estimators.h"
#include "orchestrator/cost/steady_plain.h"
#include "orchestrator/cost/verify_cost.h"

namespace bastion {

struct CostModelOptions {
  // The name of the estimator (make_estimator.h) for all policies but `bastion`.
  std::string measured = "staircase";
};

// What the caller of a verify measured.
struct CallerTimes {
  absl::Duration round_trip;  // Waiting for the reply.
  absl::Duration tree;        // Planning, and growing the trees.
  bool planned = true;        // False if the batch rested (rest_schedule.h).
};

class CostModel {
 public:
  // INVALID_ARGUMENT for an unknown estimator name, and for a target or table that an estimator
  // cannot be fitted to.
  [[nodiscard]] static absl::StatusOr<CostModel> Fit(const TargetInfo& target,
                                                     const LatencyProfile& table,
                                                     const CostModelOptions& options = {});

  // The predicted costs of a cycle of one sequence over `context` cached tokens, by an estimator of
  // the paper. Valid until the next observation.
  [[nodiscard]] CycleCost PaperCost(int context, PaperEstimator estimator = {}) const;
  // The predicted costs of a cycle that verifies the rows of `certain` and up to `max_nodes`
  // further nodes, and drafts for up to `max_drafts` sequences.
  [[nodiscard]] BatchCost CostOf(const VerifySize& certain, int max_nodes, int max_drafts) const;
  // The duration of a cycle that drafts for `drafts` sequences and verifies `size`.
  [[nodiscard]] absl::Duration PredictCycle(const VerifySize& size, int drafts) const {
    const BatchCost cost = CostOf(size, /*max_nodes=*/0, drafts);
    return absl::Seconds(cost.Seconds(drafts, /*nodes=*/0) + cost.planning_seconds);
  }
  // The verify stage of a call (TimingTrace::verify()). `drafted`: the cycle drafted before it.
  [[nodiscard]] absl::Duration PredictVerify(const VerifySize& size, bool drafted) const;

  // A cycle of plain decoding for the sequences of `size`: without nodes, drafts and prompts.
  [[nodiscard]] absl::Duration PredictPlain(const VerifySize& size) const;

  // The largest measured row count. Predictions beyond it are extrapolated.
  [[nodiscard]] int measured_rows() const { return measured_rows_; }

  // Learns from a verify call. Time spent in the engine's queue does not count as a cost. Calls
  // with prompt tokens teach only what such calls cost (verify_cost.h). The experts that a call
  // touched explain a part of its time, and teach how many to expect (expert_cost.h).
  void ObserveVerify(const VerifySize& size, bool drafted, const TimingTrace& trace,
                     const CallerTimes& caller);
  // The cost of Expand calls, to learn from: of the first round of a cycle by sequences, and of a
  // further round by nodes.
  [[nodiscard]] DraftCost& draft() { return draft_; }
  [[nodiscard]] const DraftCost& draft() const { return draft_; }
  [[nodiscard]] DraftCost& further_round() { return further_round_; }
  [[nodiscard]] const DraftCost& further_round() const { return further_round_; }

 private:
  CostModel(PaperEstimators paper, VerifyCost verify, std::shared_ptr<ExpertCost> experts,
            const LatencyProfile& table);
  // The element of steady_plain_ for calls like this one.
  [[nodiscard]] static size_t PlainKind(const VerifySize& size) {
    return size.prompts.rows > 0 ? 1 : 0;
  }
  // Corrects the predicted time of a call of this size, if plain decoding consists of such calls.
  [[nodiscard]] double PlainFactor(const VerifySize& size) const;
  // The time that a call of `verify` would have taken if it had touched the expected number of
  // experts instead of `experts`. `verify` itself for calls with prompts.
  [[nodiscard]] absl::Duration WithExpectedExperts(const VerifySize& size, absl::Duration verify,
                                                   double experts) const;
  // Commit and messages of a cycle.
  [[nodiscard]] absl::Duration Overhead(int sequences) const;
  // Planning and tree construction of a cycle.
  [[nodiscard]] absl::Duration Planning(int sequences) const;

  PaperEstimators paper_;
  VerifyCost verify_;
  std::shared_ptr<ExpertCost> experts_;      // Null for a target without experts.
  std::array<SteadyPlain, 2> steady_plain_;  // Without and with prompts.
  bool last_drafted_ = false;                // The last verify followed a draft.
  bool last_plain_ = false;  // The last verify had no nodes and did not follow a draft.
  int measured_rows_;
  FadingLine overhead_;  // Seconds, over sequences.
  FadingLine planning_;  // Seconds, over sequences.
  DraftCost draft_;
  DraftCost further_round_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_COST_COST_MODEL_H_
