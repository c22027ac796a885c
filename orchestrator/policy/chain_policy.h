// chain[:n]: the first n nodes of the spine; without n, the whole spine: DFlash without a tree.
// linear:K: the same with K nodes, the name that papers use with an autoregressive drafter
// (Leviathan et al., arXiv 2211.17192). Header-only.
#ifndef BASTION_ORCHESTRATOR_POLICY_CHAIN_POLICY_H_
#define BASTION_ORCHESTRATOR_POLICY_CHAIN_POLICY_H_

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>

#include "orchestrator/policy/policy_kind.h"
#include "orchestrator/tree/chain.h"

namespace bastion {

class ChainPolicy final : public NamedPolicyKind {
 public:
  static std::unique_ptr<const PolicyKind> Parse(std::optional<std::string_view> argument) {
    if (!argument.has_value()) return std::make_unique<ChainPolicy>(std::nullopt);
    const std::optional<int> nodes = ParsePolicyNumber(*argument);
    return nodes.has_value() ? std::make_unique<ChainPolicy>(nodes) : nullptr;
  }
  static std::unique_ptr<const PolicyKind> ParseLinear(std::optional<std::string_view> argument) {
    return argument.has_value() ? Parse(argument) : nullptr;
  }
  // nullopt: all positions.
  explicit ChainPolicy(std::optional<int> nodes) : nodes_(nodes) {}

  int CandidatesFor(int max_nodes) const override { return std::min(1, max_nodes); }
  int max_rounds() const override { return nodes_.value_or(kDefaultRounds); }
  GrownTree Grow(TokenId root, Candidates& candidates, const TreeLimits& limits, int horizon,
                 const CostModel& /*costs*/) const override {
    const int wanted = nodes_.value_or(horizon);
    return Limit(GrowChain(root, candidates, std::min(wanted, limits.nodes)), wanted, limits,
                 horizon);
  }

 private:
  const std::optional<int> nodes_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_POLICY_CHAIN_POLICY_H_
