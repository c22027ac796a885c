// The beam tree w×d, which the BASTION paper compares with best-first growth (Figure 8).
//
// Definition: level 1 holds the w best tokens of position 1. Level k+1 holds the w best one-token
// extensions of the prefixes on level k, by path score (best_first.h). There are d levels. Every
// kept prefix is a node, so N = w·d (w = 4, d = 15: 60 nodes, 61 verified rows). N is smaller if a
// level has fewer than w extensions with non-zero probability. Ties: the better parent wins, then
// the lower rank. Nodes are stored level by level, so every prefix of the arrays is a tree. Growing
// stops at a number of nodes; the tree is then such a prefix. The time is O(n log n) for n nodes,
// whatever w and d are. Thread-safe: no state.
#ifndef BASTION_ORCHESTRATOR_TREE_BEAM_H_
#define BASTION_ORCHESTRATOR_TREE_BEAM_H_

#include <limits>

#include "common/base/ids.h"
#include "common/stages/draft_tree.h"
#include "orchestrator/tree/candidates.h"

namespace bastion {

// At most `max_nodes` nodes. REQUIRES: width >= 1.
[[nodiscard]] DraftTree GrowBeam(TokenId root, Candidates& candidates, int width, int depth,
                                 int max_nodes = std::numeric_limits<int>::max());

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_TREE_BEAM_H_
