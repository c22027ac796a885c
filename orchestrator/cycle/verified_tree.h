// VerifiedTree: a draft tree and what the target chose, for those who look at single cycles. Plain
// data.
#ifndef BASTION_ORCHESTRATOR_CYCLE_VERIFIED_TREE_H_
#define BASTION_ORCHESTRATOR_CYCLE_VERIFIED_TREE_H_

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

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_CYCLE_VERIFIED_TREE_H_
