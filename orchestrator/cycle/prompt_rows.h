// Shares the row budget of a forward among the prompts that are not prefilled yet. The prompt with
// the fewest rows left comes first, which minimizes the mean time to the first token. A prompt ages
// while rows go to others: every two of them count as one row less. So at most about two rows of
// later prompts precede each row of a long prompt. Thread-safe: no state.
#ifndef BASTION_ORCHESTRATOR_CYCLE_PROMPT_ROWS_H_
#define BASTION_ORCHESTRATOR_CYCLE_PROMPT_ROWS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace bastion {

// One prompt that waits for rows.
struct PromptDemand {
  int left = 0;           // Rows that it still needs.
  int64_t overtaken = 0;  // Rows that others received while it waited.
};

// The rows of every prompt in the next forward; their sum is min(budget, sum of `left`). Of two
// equal prompts, the first comes first.
[[nodiscard]] std::vector<int> SharePromptRows(absl::Span<const PromptDemand> prompts, int budget);

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_CYCLE_PROMPT_ROWS_H_
