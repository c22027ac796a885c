// StageTimes: the time of one cycle, divided into stages. All reports and the cost model use this
// division.
#ifndef BASTION_ORCHESTRATOR_COST_STAGE_TIMES_H_
#define BASTION_ORCHESTRATOR_COST_STAGE_TIMES_H_

#include "absl/time/time.h"
#include "common/stages/stage_data.h"

namespace bastion {

// The stages do not overlap. They sum to the duration of the cycle, from the draft request to the
// verifier's reply. All sequences of a batch share one cycle, so they get the same times.
struct StageTimes {
  absl::Duration draft;         // The Expand call.
  absl::Duration tree;          // Planning, growing the trees, and preparing the verify call.
  absl::Duration verify_queue;  // Waiting for the verifier's engine.
  absl::Duration verify;        // Layout, forward and acceptance.
  absl::Duration commit;        // KV compaction and feature export.
  absl::Duration audit;         // Decoding the cycle again, if it was selected for an audit.
  absl::Duration transfer;      // The rest of the verify call: messages and thread wake-ups.

  StageTimes& operator+=(const StageTimes& other);
  [[nodiscard]] absl::Duration total() const {
    return draft + tree + verify_queue + verify + commit + audit + transfer;
  }
};

// The stages of one verify call. `round_trip` is the time that the caller waited.
[[nodiscard]] StageTimes VerifyStages(const TimingTrace& trace, absl::Duration round_trip);

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_COST_STAGE_TIMES_H_
