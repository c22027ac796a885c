// The tree of EAGLE-2 and EAGLE-3, as its authors build it (SafeAILab/EAGLE, eagle/model/cnets.py,
// topK_genrate).
//
// Definition: round 0 expands the root into its `width` most probable children. Each of `depth`
// further rounds expands the beam, which is the `width` best nodes of the newest level by path
// score (best_first.h), into `width` children each. All nodes that were ever scored form the pool.
// The tree is the root and the `nodes` − 1 best others of the pool, in the order of the pool: round
// by round, the better parent first, then the lower rank. Of two nodes with the same score, the one
// that comes first in the pool is better. So a node is never better than its parent, and every
// prefix of the arrays is a tree.
//
// What the authors' code counts, at commit 148042c5:
//   - Its loop runs `depth` times after round 0. With 10, 7 and 60, these are 1 + 7 expansions, a
//     pool of 10 + 7·100 = 710 nodes, and nodes at depths 1 to 8.
//   - total_tokens counts the root: the constructor subtracts 1, so 60 tokens are 59 drafted nodes.
//   - It leaves open which of two equal scores wins.
//
// With a limit on nodes below `nodes` − 1, the tree has the best nodes of the pool, and not the
// first ones. A beam then has at most as many nodes as the tree: a node that is not among the best
// of its own level cannot be in the tree, and neither can its descendants.
//
// The time is O(depth · width² + n log n) for n nodes. Thread-safe: no state.
#ifndef BASTION_ORCHESTRATOR_TREE_EAGLE_H_
#define BASTION_ORCHESTRATOR_TREE_EAGLE_H_

#include <limits>

#include "common/base/ids.h"
#include "common/stages/draft_tree.h"
#include "orchestrator/tree/candidates.h"

namespace bastion {

// The defaults are those of the authors' EaModel.from_pretrained. The constructor in cnets.py has
// others: 8, 5 and 63.
struct EagleShape {
  int width = 10;  // top_k
  int depth = 7;   // Rounds after round 0.
  int nodes = 60;  // total_tokens. Counts the root.
};

// At most `max_nodes` nodes, without the root. REQUIRES: width >= 1, depth >= 0, nodes >= 1.
[[nodiscard]] DraftTree GrowEagle(TokenId root, Candidates& candidates, const EagleShape& shape,
                                  int max_nodes = std::numeric_limits<int>::max());

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_TREE_EAGLE_H_
