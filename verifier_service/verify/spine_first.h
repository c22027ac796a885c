// The order of a tree's rows in a forward: the most probable path (the spine) first.
//
// Row k is cached as token k after the committed tokens, and the k-th accepted node belongs there.
// So rows accepted along the spine stay in place; only rows accepted off the spine move.
#ifndef BASTION_VERIFIER_SERVICE_VERIFY_SPINE_FIRST_H_
#define BASTION_VERIFIER_SERVICE_VERIFY_SPINE_FIRST_H_

#include <optional>
#include <vector>

#include "common/stages/draft_tree.h"

namespace bastion::verifier {

struct SpineFirst {
  DraftTree tree;
  std::vector<NodeIndex> nodes;  // [rows]: each row's node in the original tree.
};

// Puts the root first, then repeatedly the best child of the last node, then the remaining nodes in
// their original order. Nullopt if `tree` already has this order.
[[nodiscard]] std::optional<SpineFirst> PutSpineFirst(const DraftTree& tree);

}  // namespace bastion::verifier

#endif  // BASTION_VERIFIER_SERVICE_VERIFY_SPINE_FIRST_H_
