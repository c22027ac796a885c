// RandomTree: the trees that the startup measurement verifies. Thread-safe: no state.
#ifndef BASTION_ORCHESTRATOR_PROFILE_RANDOM_TREE_H_
#define BASTION_ORCHESTRATOR_PROFILE_RANDOM_TREE_H_

#include <cstdint>

#include "common/base/ids.h"
#include "common/stages/draft_tree.h"

namespace bastion {

// The token at `index` of a random text. REQUIRES: vocabulary >= 1.
[[nodiscard]] TokenId RandomToken(uint64_t seed, uint32_t index, int vocabulary);

// A tree of `rows` rows with random tokens below `vocabulary`. It branches if `rows` >= 3, because
// a chain could be verified without a tree attention mask. REQUIRES: 1 <= rows <= vocabulary.
[[nodiscard]] DraftTree RandomTree(int rows, int vocabulary, uint64_t seed);

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_PROFILE_RANDOM_TREE_H_
