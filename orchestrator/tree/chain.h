// The chain: one path of the most probable token at every position. This is the tree of linear
// speculative decoding (DFlash without a tree). Thread-safe: no state.
#ifndef BASTION_ORCHESTRATOR_TREE_CHAIN_H_
#define BASTION_ORCHESTRATOR_TREE_CHAIN_H_

#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/stages/draft_tree.h"
#include "orchestrator/tree/candidates.h"

namespace bastion {

// Grows at most `length` and at most candidates.max_depth() nodes. The chain ends at the first
// position without a candidate with non-zero probability. It also ends before the n-th node if that
// node's path score is below min_scores[n − 1]; nodes beyond the end of `min_scores` have no
// minimum.
[[nodiscard]] DraftTree GrowChain(TokenId root, Candidates& candidates, int length,
                                  absl::Span<const double> min_scores = {});

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_TREE_CHAIN_H_
