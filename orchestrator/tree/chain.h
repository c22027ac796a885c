// The chain: the drafter's most probable token at every position, one path. This is the tree of
// linear speculative decoding (DFlash without a tree). Thread-safe: no state.
#ifndef BASTION_ORCHESTRATOR_TREE_CHAIN_H_
#define BASTION_ORCHESTRATOR_TREE_CHAIN_H_

#include "common/base/ids.h"
#include "common/tree/draft_tree.h"
#include "orchestrator/tree/candidate_scores.h"

namespace bastion {

// At most `length` nodes; fewer when there are fewer positions, or where a position has no
// candidate of non-zero probability.
[[nodiscard]] DraftTree GrowChain(TokenId root, const CandidateScores& scores, int length);

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_TREE_CHAIN_H_
