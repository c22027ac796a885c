#include "orchestrator/cycle/prompt_rows.h"

#include <algorithm>
#include <numeric>

namespace bastion {

std::vector<int> SharePromptRows(absl::Span<const PromptDemand> prompts, int budget) {
  std::vector<size_t> order(prompts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return 2 * prompts[a].left - prompts[a].overtaken < 2 * prompts[b].left - prompts[b].overtaken;
  });
  std::vector<int> rows(prompts.size(), 0);
  for (const size_t i : order) {
    rows[i] = std::min(prompts[i].left, budget);
    budget -= rows[i];
  }
  return rows;
}

}  // namespace bastion
