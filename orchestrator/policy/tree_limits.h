// TreeLimits: hard limits on the size of a tree, independent of costs. Plain data.
#ifndef BASTION_ORCHESTRATOR_POLICY_TREE_LIMITS_H_
#define BASTION_ORCHESTRATOR_POLICY_TREE_LIMITS_H_

#include <algorithm>
#include <limits>
#include <optional>

#include "common/base/ids.h"
#include "common/stages/stage_data.h"
#include "orchestrator/planner/grown_tree.h"

namespace bastion {

inline constexpr int kNoNodeCap = std::numeric_limits<int>::max();

// The limit of the server for the nodes of every tree. A row is cheap on a GPU only.
struct NodeCap {
  int on_cpu = kNoNodeCap;
  int on_gpu = kNoNodeCap;

  [[nodiscard]] int For(const TargetInfo& target) const { return target.on_gpu ? on_gpu : on_cpu; }
  friend bool operator==(const NodeCap&, const NodeCap&) = default;
};

struct TreeLimits {
  Position context = 0;  // Cached tokens of the sequence.
  int nodes = 0;         // Maximum number of nodes, without the root. 0: a plain decode step.
  int depth = 0;         // Maximum depth of a node.
  // What limits `nodes`: kRows, kShare, kServerLimit, kLength, kRequestLimit, or kExploration.
  BudgetReason reason = BudgetReason::kRows;
};

// The limits of one cycle. `tokens_left` is the number of tokens that the request may still emit
// after the root. A cycle emits the accepted nodes and one more token, so nodes deeper than
// tokens_left − 1 could not be emitted. `max_nodes` is the limit of the request; nullopt: none.
// `node_cap` is the limit of the server.
[[nodiscard]] inline TreeLimits LimitsFor(const TargetInfo& target, Position context,
                                          int tokens_left, std::optional<int> max_nodes,
                                          int node_cap = kNoNodeCap) {
  TreeLimits limits = {.context = context, .nodes = std::max(0, target.max_rows - 1)};
  const auto lower = [&limits](int nodes, BudgetReason reason) {
    if (nodes >= limits.nodes) return;
    limits.nodes = std::max(0, nodes);
    limits.reason = reason;
  };
  // Every row, the root included, occupies a position of the context after the cached tokens.
  lower(target.max_context - context - 1, BudgetReason::kLength);
  lower(node_cap, BudgetReason::kServerLimit);
  if (max_nodes.has_value()) lower(*max_nodes, BudgetReason::kRequestLimit);
  limits.depth = std::clamp(tokens_left - 1, 0, limits.nodes);
  if (limits.nodes > 0 && limits.depth == 0) limits.reason = BudgetReason::kLength;
  return limits;
}

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_POLICY_TREE_LIMITS_H_
