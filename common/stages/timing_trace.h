// TimingTrace: how long each part of a verify call took. The verifier measures it; the
// orchestrator's cost model learns from it. Plain data.
#ifndef BASTION_COMMON_STAGES_TIMING_TRACE_H_
#define BASTION_COMMON_STAGES_TIMING_TRACE_H_

#include <vector>

#include "absl/time/time.h"

namespace bastion {

struct TimingTrace {
  absl::Duration queue;           // Wait for the engine.
  absl::Duration layout;          // Turn trees into rows, positions, slots and masks.
  absl::Duration forward;         // Run the model, logits included.
  absl::Duration accept;          // Choose tokens and walk the trees along them.
  absl::Duration commit;          // Compact the KV cache and extend the sequences' history.
  absl::Duration feature_export;  // Gather and store the features of the accepted rows.
  absl::Duration audit;           // Decode the call again token by token. Zero if not audited.
  int rows = 0;                   // Rows of the forward, prompt tokens included.
  std::vector<int> contexts;  // Cached tokens before the call: of each tree, then of each prompt.

  // Duration of the verify stage. The cost model predicts it from rows and contexts.
  [[nodiscard]] absl::Duration verify() const { return layout + forward + accept; }
};

}  // namespace bastion

#endif  // BASTION_COMMON_STAGES_TIMING_TRACE_H_
