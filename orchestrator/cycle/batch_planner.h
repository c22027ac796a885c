// BatchPlan: which sequences decode in the next forward, and how many prompt rows it holds.
//
// Without latency targets, all sequences decode, and prompts get the row budget of the server. A
// latency target limits the predicted time of a forward (DecodeSequence::longest_cycle()). Then
// PlanBatch fills the forward in this order:
//
//   1. The sequences with a target always decode.
//   2. The others decode while they fit. If not all fit, they take turns in proportion to their
//      weights: the sequence that lacks most turns comes first.
//   3. Prompts get the rows that are left. While prompts wait, half of the rows that fit beside
//      step 1 are reserved for them.
//
// The limit is at least kBatchFloor times the duration of step 1 alone, and every forward has at
// least one other sequence and one prompt row. So a target that cannot be kept slows the others
// down, but never stops them. The planner of the trees (forest_planner.h) uses the time that is
// left for drafts and nodes. Thread-safe: no state.
#ifndef BASTION_ORCHESTRATOR_CYCLE_BATCH_PLANNER_H_
#define BASTION_ORCHESTRATOR_CYCLE_BATCH_PLANNER_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "orchestrator/cost/cost_model.h"
#include "orchestrator/cycle/sequence.h"

namespace bastion {

// What PlanBatch remembers about a sequence. The owner of the sequence stores it.
struct BatchHistory {
  double credit = 0;      // Turns to decode that it should have had beyond those that it had.
  int64_t overtaken = 0;  // Prompt rows that others received while its prompt waited.
};

// A sequence that could take part in the next forward. Not owned.
struct BatchCandidate {
  DecodeSequence* sequence;
  BatchHistory* history;
};

// The limits of a forward without targets.
struct BatchLimits {
  int max_rows = 1;       // TargetInfo::max_rows
  int prompt_rows = 256;  // All prompts together.
};

struct BatchPlan {
  // Rows of one prompt.
  struct PromptRows {
    size_t index;  // Index of the candidate.
    int rows;      // At least 1.
  };
  std::vector<size_t> decoding;  // Indices of the candidates that decode, ascending.
  std::vector<PromptRows> prompts;
  int waiting = 0;  // Further candidates with a prompt.
};

inline constexpr double kBatchFloor = 1.25;

// Plans the next forward, and records it in the histories. `decoding` can decode, `prompts` have
// prompt_left() > 0. REQUIRES: decoding.size() <= limits.max_rows.
[[nodiscard]] BatchPlan PlanBatch(absl::Span<const BatchCandidate> decoding,
                                  absl::Span<const BatchCandidate> prompts,
                                  const BatchLimits& limits, const CostModel& costs);

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_CYCLE_BATCH_PLANNER_H_
