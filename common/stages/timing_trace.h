// TimingTrace: where a verify call's time went, measured by the verifier. It feeds the
// orchestrator's cost model. Plain data.
#ifndef BASTION_COMMON_STAGES_TIMING_TRACE_H_
#define BASTION_COMMON_STAGES_TIMING_TRACE_H_

#include <vector>

#include "absl/time/time.h"

namespace bastion {

struct TimingTrace {
  absl::Duration queue;           // Waiting for the engine.
  absl::Duration layout;          // Trees to rows, positions, slots and masks.
  absl::Duration forward;         // The model, logits included.
  absl::Duration accept;          // The target's choices and the walks along them.
  absl::Duration commit;          // KV compaction and the sequences' history.
  absl::Duration feature_export;  // Features of the accepted rows, gathered and stored.
  absl::Duration audit;           // Decoding the call again token by token; usually zero.
  int rows = 0;
  std::vector<int> contexts;  // Cached tokens of each sequence before the call.

  // The verify stage, which the cost model predicts from rows and contexts.
  [[nodiscard]] absl::Duration verify() const { return layout + forward + accept; }
};

}  // namespace bastion

#endif  // BASTION_COMMON_STAGES_TIMING_TRACE_H_
