// The chain: the drafter's most probable token at every position, one path. This is the tree of
// linear speculative decoding (DFlash without a tree). Thread-safe: no state.
#ifndef BASTION_ORCHESTRATOR_TREE_CHAIN_H_
#define BASTION_ORCHESTRATOR_TREE_CHAIN_H_

#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/stages/draft_tree.h"
#include "orchestrator/tree/candidates.h"

namespace bastion {

// At most `length` nodes; fewer when there are fewer positions, or where a position has no
// candidate of non-zero probability.
// It ends before the n-th node when its path scores less than least_scores[n − 1], if there is one.
[[nodiscard]] DraftTree GrowChain(TokenId root, const CandidateRows& rows, int length,
                                  absl::Span<const double> least_scores = {});

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_TREE_CHAIN_H_
