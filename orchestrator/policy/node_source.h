// NodeSource: what proposed a node of a draft tree. Plain data.
#ifndef BASTION_ORCHESTRATOR_POLICY_NODE_SOURCE_H_
#define BASTION_ORCHESTRATOR_POLICY_NODE_SOURCE_H_

namespace bastion {

enum class NodeSource {
  kDraft,    // The drafter.
  kTable,    // The transition table.
  kRequest,  // The continuation counts of the request.
  kLearned,  // The continuation counts of all requests.
};
inline constexpr int kNodeSources = 4;

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_POLICY_NODE_SOURCE_H_
