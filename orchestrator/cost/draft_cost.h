// DraftCost: predicts how long an Expand call for m sequences takes (T_draft of the BASTION paper).
//
// A draft runs a block of a few rows per sequence through the drafter, so its cost has the shape of
// the verify cost of as many rows: nearly constant while memory is the limit, then linear. The
// scale of that shape is the smallest that the first kScaling observations show: noise only adds
// time, and a cost that is too high would prevent the drafts that correct it. Later observations
// correct the curve like verify times (staircase.h), at 1, 2, 4, … sequences.
//
// The drafter also processes the committed tokens that it has not seen. D(m) includes the few of
// the last cycle. A first draft processes the whole prompt, which may take longer than the draft
// itself. This time per token is estimated from such calls: from the drafter's own trace if there
// is one, else from what the call took beyond D(m). With many requests and short answers, nearly
// every call has a first draft, so the rest of the call corrects D(m) too if there is a trace.
// Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_COST_DRAFT_COST_H_
#define BASTION_ORCHESTRATOR_COST_DRAFT_COST_H_

#include <algorithm>
#include <vector>

#include "absl/time/time.h"
#include "common/stages/timing_trace.h"
#include "orchestrator/cost/estimator.h"
#include "orchestrator/cost/staircase.h"

namespace bastion {

// An Expand call that succeeded.
struct DraftCall {
  int sequences = 0;      // At least 1.
  absl::Duration spent;   // As the cycle measured it.
  int excess_tokens = 0;  // The sum over all sequences (DraftCost::ExcessTokens).
  int usual_tokens = 0;   // The other new tokens of all sequences.
  DraftTrace trace = {};  // The drafter's. All zero: unknown.
};

class DraftCost {
 public:
  static constexpr int kScaling = 8;
  static constexpr int kUsualTokens = 16;  // D(m) includes this many new tokens per sequence.

  // Blocks of published block drafters have 8 to 16 rows.
  static constexpr int kBlockRows = 8;

  // Takes the shape from the current predictions of `verify`, for calls with `rows` rows per
  // sequence.
  explicit DraftCost(const LatencyEstimator& verify, int rows = kBlockRows);

  // D(m). D(0) = 0.
  [[nodiscard]] absl::Duration Predict(int sequences) const;
  // [max_sequences + 1] D(0), D(1), …, in seconds. Never decreases.
  [[nodiscard]] std::vector<double> Curve(int max_sequences) const;
  // The tokens that D(m) does not include if `new_tokens` tokens of one sequence are new.
  [[nodiscard]] static int ExcessTokens(int new_tokens) {
    return std::max(0, new_tokens - kUsualTokens);
  }
  // Seconds to process `tokens` excess tokens, beyond D(m).
  [[nodiscard]] double CatchUp(int tokens) const {
    return tokens * std::max(0.0, catch_up_seconds_ / catch_up_tokens_);
  }

  // Learns from a call. Ignores times that are not positive, and calls for which the drafter has
  // processed none of the excess tokens.
  void Observe(const DraftCall& call);
  // Learns from a call that failed after `spent`: drafts are at least this expensive. A call that
  // fails fast says nothing.
  void ObserveFailure(int sequences, absl::Duration spent);

 private:
  // Excess tokens that the drafter processed in the call, and the time that they took.
  struct CatchUpPart {
    double tokens;
    absl::Duration spent;
  };
  void ObserveCatchUp(const CatchUpPart& part);
  // Learns from a call without excess tokens.
  void ObserveDraft(int sequences, absl::Duration spent);
  // As the drafter measured it. REQUIRES: trace.drafts > 0.
  [[nodiscard]] static CatchUpPart TracedCatchUp(const DraftCall& call);

  std::vector<ProfilePoint> shape_;  // Scaled. Its rows are sequences.
  Staircase curve_;
  int observations_ = 0;
  // Fading sums over calls with excess tokens: the time beyond D(m), and these tokens.
  double catch_up_seconds_;
  double catch_up_tokens_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_COST_DRAFT_COST_H_
