// VerifiedTree: a draft tree and what the target chose, for those who look at single cycles. Plain
// data.
#ifndef BASTION_ORCHESTRATOR_CYCLE_VERIFIED_TREE_H_
#define BASTION_ORCHESTRATOR_CYCLE_VERIFIED_TREE_H_

#include <array>
#include <cmath>
#include <vector>

#include "common/stages/draft_tree.h"
#include "orchestrator/policy/node_source.h"

namespace bastion {

struct VerifiedTree {
  DraftTree tree;
  std::vector<NodeSource> sources;  // Element i is for node i + 1.
  std::vector<NodeIndex> accepted;  // Accepted nodes, parents first.
  TokenId next;                     // The target's choice after the last accepted node.
};

// The nodes of a tree from one source.
struct SourceTotals {
  int nodes = 0;
  int accepted = 0;
  double expected = 0;  // Sum of the path probabilities: accepted nodes that the drafts predict.
};

// By source.
[[nodiscard]] inline std::array<SourceTotals, kNodeSources> TotalsOf(const VerifiedTree& verified) {
  std::array<SourceTotals, kNodeSources> totals;
  const auto totals_of = [&](NodeIndex node) -> SourceTotals& {
    return totals[static_cast<size_t>(verified.sources[node - 1])];
  };
  for (NodeIndex i = 1; i < verified.tree.rows(); ++i) {
    ++totals_of(i).nodes;
    totals_of(i).expected += std::exp(verified.tree.log_score(i));
  }
  for (const NodeIndex i : verified.accepted) ++totals_of(i).accepted;
  return totals;
}

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_CYCLE_VERIFIED_TREE_H_
