// TreeLimits: how large a tree may be at all, before anyone asks whether it pays. Plain data.
#ifndef BASTION_ORCHESTRATOR_POLICY_TREE_LIMITS_H_
#define BASTION_ORCHESTRATOR_POLICY_TREE_LIMITS_H_

#include <algorithm>
#include <optional>

#include "common/base/ids.h"
#include "common/stages/stage_data.h"

namespace bastion {

struct TreeLimits {
  Position context = 0;  // Cached tokens of the sequence.
  int nodes = 0;         // Most nodes without the root; 0 is a plain decode step.
  int depth = 0;         // Deepest node.
};

// `tokens_left` counts what the request may still emit after the root: a cycle emits the accepted
// nodes and one token more, so a tree deeper than tokens_left − 1 has nodes that cannot count.
// `max_nodes` is the request's own limit; without a value it has none.
[[nodiscard]] inline TreeLimits LimitsFor(const TargetInfo& target, Position context,
                                          int tokens_left, std::optional<int> max_nodes) {
  // Every row takes a place in the context behind the cached tokens, the root the first one.
  const int rows = std::min(target.max_rows, target.max_context - context);
  const int nodes = std::max(0, std::min(rows - 1, max_nodes.value_or(rows)));
  return {context, nodes, std::clamp(tokens_left - 1, 0, nodes)};
}

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_POLICY_TREE_LIMITS_H_
