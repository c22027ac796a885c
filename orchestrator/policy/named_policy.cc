#include "orchestrator/policy/named_policy.h"

#include <algorithm>
#include <utility>

namespace bastion {
namespace {

// Nodes list this many children, or as many as the tree has nodes.
constexpr int kMinChildren = 32;

}  // namespace

std::optional<DraftRound> NamedPolicy::PlanRound() {
  if (!policy().wants_draft()) return std::nullopt;
  DraftRound round = {.required = true,
                      .candidates = std::max(1, policy().CandidatesFor(limits().nodes))};
  if (rounds() == 0) return round;
  round.paths = draft().TakeMissing();
  if (round.paths.empty() || rounds() >= rule_.max_rounds()) return std::nullopt;
  const FurtherRound further = {grown_->tree, round.paths, rounds(), limits()};
  if (!rule_.RoundPays(further, *costs_)) return std::nullopt;
  return round;
}

void NamedPolicy::Grow() {
  const int max_children = std::max(kMinChildren, policy().CandidatesFor(limits().nodes));
  from_prior_ = draft().empty() && candidates().has_prior();
  if (from_prior_) {
    const auto listed = candidates().FromPrior(limits().depth, max_children);
    grown_ = rule_.Grow(root(), *listed, limits(), RequestCandidates::kPriorDepth, *costs_);
  } else {
    const auto listed = candidates().FromDraft(draft(), limits().depth, max_children);
    const int horizon = std::min(draft().max_depth(), rule_.max_rounds());
    grown_ = rule_.Grow(root(), *listed, limits(), horizon, *costs_);
  }
}

TreeProposal NamedPolicy::ProposeTree() {
  if (!has_room()) {
    grown_ = {DraftTree(root()), policy().wants_draft() ? limits().reason : BudgetReason::kPolicy};
  } else if (!grown_.has_value()) {
    Grow();
  }
  return {.certain = grown_->tree.nodes()};
}

GrownTree NamedPolicy::FinishTree(int /*nodes*/, BudgetReason /*reason*/) {
  return *std::exchange(grown_, std::nullopt);
}

void NamedPolicy::Learn(const GrownTree& grown, absl::Span<const TokenId> chosen) {
  // The last chosen token is not a node.
  if (own_rule_ != nullptr) own_rule_->Observe(grown.tree, static_cast<int>(chosen.size()) - 1);
  candidates().ObserveChoices(draft(), from_prior_, chosen);
}

}  // namespace bastion
