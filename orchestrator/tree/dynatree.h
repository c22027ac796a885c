// DynaTree: a tree whose branching follows the drafter's confidence (Chen et al., §3.3 and
// Algorithm 1).
//
// The tree begins with the drafter's single most probable token u0 after the root. Nodes are then
// expanded breadth first. Let p(u) be the probability of the path from the root to u, and d(u) the
// depth below u0. A node is expanded only if
//
//   p(u) >= prune,  d(u) < max_depth,  p(u) >= stop,  and  d(u) < base_depth or p(u) >= deep.
//
// It gets its B(u) most probable children, where B(u) depends on the confidence c(u), the largest
// probability among the candidates after u: min_branches if c(u) >= high, max_branches if
// c(u) < low, else mid_branches. The tree ends at `nodes` nodes, u0 included.
//
// The text of §3.3 prunes nodes with p(u) < τ. Algorithm 1 as printed keeps them as leaves and only
// does not expand them. This is Algorithm 1, unless the shape says otherwise. Thread-safe: no
// state.
#ifndef BASTION_ORCHESTRATOR_TREE_DYNATREE_H_
#define BASTION_ORCHESTRATOR_TREE_DYNATREE_H_

#include "common/base/ids.h"
#include "common/stages/draft_tree.h"
#include "orchestrator/tree/candidates.h"

namespace bastion {

// Names and defaults follow the paper (Appendix A), which names no value for `stop` and `deep`.
// `prune` is the best threshold of Figure 4.
struct DynaTreeShape {
  int min_branches = 1;  // B_min
  int mid_branches = 2;  // B_mid
  int max_branches = 3;  // B_max
  double high = 0.9;     // τ_h
  double low = 0.4;      // τ_l
  int base_depth = 5;    // D_0
  int max_depth = 8;     // D_max
  double stop = 0.03;    // ρ_stop
  double deep = 0.2;     // ρ_deep
  double prune = 0.03;   // τ
  int nodes = 256;       // N_max
  // False: as the text of §3.3 says, nodes with p(u) < τ are not in the tree.
  bool keeps_leaves = true;
};

// The same number of branches everywhere, down to `depth`: the paper's fixed tree.
[[nodiscard]] DynaTreeShape FixedTreeShape(int depth, int branches, int nodes);

[[nodiscard]] DraftTree GrowDynaTree(TokenId root, Candidates& candidates,
                                     const DynaTreeShape& shape);

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_TREE_DYNATREE_H_
