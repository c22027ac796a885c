// StageTimes: where one cycle's time went, as the orchestrator sees it. Every report and the cost
// model use this one division.
#ifndef BASTION_ORCHESTRATOR_COST_STAGE_TIMES_H_
#define BASTION_ORCHESTRATOR_COST_STAGE_TIMES_H_

#include "absl/time/time.h"
#include "common/stages/stage_data.h"

namespace bastion {

// The parts do not overlap: they sum to the cycle, from the first draft request to the verifier's
// reply. All sequences of a batch share one cycle and so the same times.
struct StageTimes {
  absl::Duration draft;         // The Expand call.
  absl::Duration tree;          // Growing the trees.
  absl::Duration verify_queue;  // Waiting for the verifier's engine.
  absl::Duration verify;        // Layout, forward and acceptance.
  absl::Duration commit;        // KV compaction and feature export.
  absl::Duration audit;         // Decoding the cycle again, if it was drawn for an audit.
  absl::Duration transfer;      // The rest of the verify call: messages and threads' wake-ups.

  StageTimes& operator+=(const StageTimes& other);
  [[nodiscard]] absl::Duration total() const {
    return draft + tree + verify_queue + verify + commit + audit + transfer;
  }
};

// The stages of one verify call. `round_trip` is what its caller waited.
[[nodiscard]] StageTimes VerifyStages(const TimingTrace& trace, absl::Duration round_trip);

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_COST_STAGE_TIMES_H_
