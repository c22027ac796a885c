// TimingTrace: how long each part of a verify call took. The verifier measures it; the
// orchestrator's cost model learns from it. DraftTrace is the drafter's. Plain data.
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
  // Experts that the rows chose, distinct ones of a layer, as a mean over the layers with experts.
  // 0 if the model has none.
  double experts = 0;
  std::vector<int> contexts;  // Cached tokens before the call: of each tree, then of each prompt.

  // Duration of the verify stage. The cost model predicts it from rows and contexts.
  [[nodiscard]] absl::Duration verify() const { return layout + forward + accept; }
};

// DraftTrace: how long each part of an Expand call took. Drafts that were made ahead of the call
// took no time in it. Plain data.
struct DraftTrace {
  absl::Duration queue;       // Wait for the engine.
  absl::Duration features;    // Wait for features from the verifier.
  absl::Duration context;     // Project new features into the context cache.
  absl::Duration forward;     // Run the model, logits included.
  absl::Duration candidates;  // Rank the candidates of each position.
  int context_tokens = 0;     // Tokens that were added to contexts.
  int drafts = 0;             // Drafts that were requested.
  int ahead = 0;              // Those that were made ahead (draft_ahead.h).
};

}  // namespace bastion

#endif  // BASTION_COMMON_STAGES_TIMING_TRACE_H_
