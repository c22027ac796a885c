// PolicyKind: what the base name of a policy means: "fixed:16", "chain", "adaptive". One class per
// base name, each in a file of its own (fixed_policy.h, chain_policy.h, …). The grammar in
// policy.cc lists them. Immutable, shared by all requests of the policy, unless stated otherwise.
// Thread-safe.
#ifndef BASTION_ORCHESTRATOR_POLICY_POLICY_KIND_H_
#define BASTION_ORCHESTRATOR_POLICY_POLICY_KIND_H_

#include <memory>
#include <optional>
#include <string_view>

#include "absl/types/span.h"
#include "common/base/ids.h"
#include "orchestrator/cost/cost_model.h"
#include "orchestrator/planner/grown_tree.h"
#include "orchestrator/policy/tree_limits.h"
#include "orchestrator/tree/candidates.h"
#include "orchestrator/tree/cycle_draft.h"

namespace bastion {

class Policy;
class RequestPolicy;
class SharedLearning;

// The largest number in the text of a policy.
inline constexpr int kLargestPolicyNumber = 4096;
// More children of one node are never worth their cost.
inline constexpr int kMaxUsefulCandidates = 64;
// The rounds of a tree whose kind does not name its depth. As deep as the blocks of published block
// drafters.
inline constexpr int kDefaultRounds = 15;

// An integer from 1 to kLargestPolicyNumber, digits only.
[[nodiscard]] std::optional<int> ParsePolicyNumber(std::string_view text);

// What a request's policy works with. `costs` and `memory` are shared and not owned; both must
// outlive the request. `greedy`: the request has temperature 0.
struct PolicyContext {
  const Policy& policy;
  bool greedy = true;
  const CostModel* costs = nullptr;
  SharedLearning* memory = nullptr;
};

class PolicyKind {
 public:
  virtual ~PolicyKind() = default;
  // False if no cycle ever needs a draft.
  [[nodiscard]] virtual bool wants_draft() const { return true; }
  // True if the policy cannot work without a transition prior.
  [[nodiscard]] virtual bool needs_prior() const { return false; }
  // K, the number of candidates per position that suffices for trees of at most `max_nodes` nodes.
  [[nodiscard]] virtual int CandidatesFor(int max_nodes) const = 0;
  [[nodiscard]] virtual std::unique_ptr<RequestPolicy> NewRequest(
      const PolicyContext& context) const = 0;
};

// Parses a policy that takes no argument. Null if there is one.
template <typename Kind>
[[nodiscard]] std::unique_ptr<const PolicyKind> ParseWithoutArgument(
    std::optional<std::string_view> argument) {
  return argument.has_value() ? nullptr : std::make_unique<const Kind>();
}

// A further round that a policy could use.
struct FurtherRound {
  const DraftTree& tree;             // As grown from the rounds so far.
  absl::Span<const TreePath> paths;  // The nodes to expand, sorted.
  int rounds = 0;                    // The rounds so far.
  int positions = 1;                 // P: the levels that each of the nodes to expand brings.
  const TreeLimits& limits;
};

// A policy that grows each tree by itself, without regard to other requests: all procedures of the
// papers. Immutable, except copies for one request (ForRequest).
//
// With a drafter that expands nodes in rounds, the tree is grown again after each round, and the
// nodes whose candidates Grow asked for in vain are expanded in the next one. So a policy is
// written once, for block drafters and for autoregressive ones. Best-first trees, for example, are
// exact: the rounds end when the children of all nodes that could have one in the tree are known.
class NamedPolicyKind : public PolicyKind {
 public:
  // The number of rounds after which the tree is final, for a drafter that expands nodes.
  [[nodiscard]] virtual int max_rounds() const { return kDefaultRounds; }
  // True if a further round is expected to pay. The policies that name the size of their trees
  // always need their rounds.
  [[nodiscard]] virtual bool RoundPays(const FurtherRound& /*round*/,
                                       const CostModel& /*costs*/) const {
    return true;
  }
  // `horizon` is the depth that the candidates would have without the depth limit.
  [[nodiscard]] virtual GrownTree Grow(TokenId root, Candidates& candidates,
                                       const TreeLimits& limits, int horizon,
                                       const CostModel& costs) const = 0;
  [[nodiscard]] std::unique_ptr<RequestPolicy> NewRequest(const PolicyContext& context) const final;

  // A policy that learns from the cycles of a request returns a copy of itself for the request.
  // Null: the policy does not learn.
  [[nodiscard]] virtual std::unique_ptr<NamedPolicyKind> ForRequest(
      const PolicyContext& /*context*/) const {
    return nullptr;
  }
  // The target accepted `accepted` nodes of `tree`. Called for copies only.
  virtual void Observe(const DraftTree& /*tree*/, int /*accepted*/) {}

 protected:
  // Truncates `tree` to the limits, and says why it does not have `wanted` nodes if it has fewer.
  [[nodiscard]] static GrownTree Limit(DraftTree tree, int wanted, const TreeLimits& limits,
                                       int horizon);
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_POLICY_POLICY_KIND_H_
