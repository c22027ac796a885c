// The order of a tree's rows in a forward: the likeliest path first.
//
// Row k is cached as token k behind the committed ones, which is where the k-th accepted node
// belongs. So as long as the walk follows that path nothing in the cache moves, and when it leaves
// it, only what comes after does.
#ifndef BASTION_VERIFIER_SERVICE_VERIFY_SPINE_FIRST_H_
#define BASTION_VERIFIER_SERVICE_VERIFY_SPINE_FIRST_H_

#include <optional>
#include <vector>

#include "common/stages/draft_tree.h"

namespace bastion::verifier {

struct SpineFirst {
  DraftTree tree;
  std::vector<NodeIndex> nodes;  // [rows]: which node of the tree as it came each row is.
};

// Root, then from each node its best child, then the others as they came. Nothing where `tree` is
// in this order already.
[[nodiscard]] std::optional<SpineFirst> PutSpineFirst(const DraftTree& tree);

}  // namespace bastion::verifier

#endif  // BASTION_VERIFIER_SERVICE_VERIFY_SPINE_FIRST_H_
