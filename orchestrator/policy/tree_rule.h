// TreeRule: what the base name of a policy means: "fixed:16", "chain", "adaptive". One class per
// base name, each in a file of its own (fixed_rule.h, chain_rule.h, …). The grammar in policy.cc
// lists them. Immutable, shared by all requests of the policy. Thread-safe.
#ifndef BASTION_ORCHESTRATOR_POLICY_TREE_RULE_H_
#define BASTION_ORCHESTRATOR_POLICY_TREE_RULE_H_

#include <memory>
#include <optional>
#include <string_view>

#include "common/base/ids.h"
#include "orchestrator/cost/cost_model.h"
#include "orchestrator/policy/grown_tree.h"
#include "orchestrator/policy/tree_limits.h"
#include "orchestrator/tree/candidates.h"

namespace bastion {

class Policy;
class RequestPolicy;
class SpeculationMemory;

// The largest number in the text of a policy.
inline constexpr int kLargestPolicyNumber = 4096;
// More children of one node are never worth their cost.
inline constexpr int kMaxUsefulCandidates = 64;

// An integer from 1 to kLargestPolicyNumber, digits only.
[[nodiscard]] std::optional<int> ParsePolicyNumber(std::string_view text);

// What a request's policy works with. `costs` and `memory` are shared and not owned; both must
// outlive the request. `greedy`: the request has temperature 0.
struct PolicyContext {
  const Policy& policy;
  bool greedy = true;
  const CostModel* costs = nullptr;
  SpeculationMemory* memory = nullptr;
};

class TreeRule {
 public:
  virtual ~TreeRule() = default;
  // False if no cycle ever needs a draft.
  [[nodiscard]] virtual bool wants_draft() const { return true; }
  // True if the rule cannot work without a transition prior.
  [[nodiscard]] virtual bool needs_prior() const { return false; }
  // K, the number of candidates per position that suffices for trees of at most `max_nodes` nodes.
  [[nodiscard]] virtual int CandidatesFor(int max_nodes) const = 0;
  [[nodiscard]] virtual std::unique_ptr<RequestPolicy> NewRequest(
      const PolicyContext& context) const = 0;
};

// Parses a rule that takes no argument. Null if there is one.
template <typename Rule>
[[nodiscard]] std::unique_ptr<const TreeRule> ParseWithoutArgument(
    std::optional<std::string_view> argument) {
  return argument.has_value() ? nullptr : std::make_unique<const Rule>();
}

// A rule that grows each tree by itself, without regard to other requests: all procedures of the
// papers.
class NamedRule : public TreeRule {
 public:
  // `horizon` is the depth that the candidates would have without the depth limit.
  [[nodiscard]] virtual GrownTree Grow(TokenId root, const Candidates& candidates,
                                       const TreeLimits& limits, int horizon,
                                       const CostModel& costs) const = 0;
  [[nodiscard]] std::unique_ptr<RequestPolicy> NewRequest(const PolicyContext& context) const final;

 protected:
  // Truncates `tree` to the limits, and says why it does not have `wanted` nodes if it has fewer.
  [[nodiscard]] static GrownTree Limit(DraftTree tree, int wanted, const TreeLimits& limits,
                                       int horizon);
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_POLICY_TREE_RULE_H_
