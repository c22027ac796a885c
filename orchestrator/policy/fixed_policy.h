// fixed:N: the best-first tree of N nodes (DDTree, Algorithm 1). ngram:N: the same from the
// transition prior alone, without drafts. Header-only.
#ifndef BASTION_ORCHESTRATOR_POLICY_FIXED_POLICY_H_
#define BASTION_ORCHESTRATOR_POLICY_FIXED_POLICY_H_

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>

#include "orchestrator/policy/policy_kind.h"
#include "orchestrator/tree/best_first.h"

namespace bastion {

class FixedPolicy final : public NamedPolicyKind {
 public:
  enum class Source { kDrafter, kPriorAlone };

  template <Source source>
  static std::unique_ptr<const PolicyKind> Parse(std::optional<std::string_view> argument) {
    const std::optional<int> nodes = ParsePolicyNumber(argument.value_or(""));
    return nodes.has_value() ? std::make_unique<FixedPolicy>(*nodes, source) : nullptr;
  }
  FixedPolicy(int nodes, Source source) : nodes_(nodes), source_(source) {}

  bool wants_draft() const override { return source_ == Source::kDrafter; }
  bool needs_prior() const override { return source_ == Source::kPriorAlone; }
  // DDTree, Lemma 1: more candidates would not change the tree.
  int CandidatesFor(int max_nodes) const override {
    return wants_draft() ? std::min(nodes_, max_nodes) : 0;
  }
  GrownTree Grow(TokenId root, Candidates& candidates, const TreeLimits& limits, int horizon,
                 const CostModel& /*costs*/) const override {
    const int budget = std::min(nodes_, limits.nodes);
    return Limit(GrowBestFirst(root, candidates, budget), nodes_, limits, horizon);
  }

 private:
  const int nodes_;
  const Source source_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_POLICY_FIXED_POLICY_H_
