// CycleSummary: what one cycle did for all its requests together. Metrics and traces are made from
// it. Plain data.
#ifndef BASTION_ORCHESTRATOR_CYCLE_CYCLE_SUMMARY_H_
#define BASTION_ORCHESTRATOR_CYCLE_CYCLE_SUMMARY_H_

#include <array>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/stages/timing_trace.h"
#include "orchestrator/cost/stage_times.h"
#include "orchestrator/cost/verify_cost.h"

namespace bastion {

struct CycleSummary {
  // On the clock of the cycle. The cycle plans, drafts, grows the trees, and verifies. Without a
  // draft, draft_began and tree_began are equal to `began`.
  absl::Duration began, draft_began, tree_began, verify_began, ended;
  StageTimes stages;
  VerifySize size;    // The verify call as it was sent.
  TimingTrace trace;  // The verifier's part of it.
  bool drafted = false;
  absl::Status draft_status;        // The draft's error. OK if there was none.
  bool rested = false;              // No request speculated, to save planning (rest_schedule.h).
  int accepted = 0;                 // Accepted nodes, all trees together.
  absl::Duration predicted_verify;  // Prediction of stages.verify.
  // Prediction of the cycle's duration without nodes, drafts, prompts and planning: that of plain
  // decoding for the same requests.
  absl::Duration plain;

  // Consecutive parts of the cycle.
  struct Part {
    const char* name;
    absl::Duration began, ended;
  };
  [[nodiscard]] std::array<Part, 4> parts() const {
    return {{{"plan", began, draft_began},
             {"draft", draft_began, tree_began},
             {"tree", tree_began, verify_began},
             {"verify", verify_began, ended}}};
  }
  [[nodiscard]] int nodes() const { return size.rows - size.prompts.rows - size.sequences; }
  // The part of the duration that is not due to prompts, by rows.
  [[nodiscard]] absl::Duration decode_time() const {
    if (size.rows == 0) return absl::ZeroDuration();
    return stages.total() * (static_cast<double>(size.rows - size.prompts.rows) / size.rows);
  }
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_CYCLE_CYCLE_SUMMARY_H_
