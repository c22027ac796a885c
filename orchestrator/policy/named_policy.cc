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
  return DraftRound{.required = true,
                    .candidates = std::max(1, policy().CandidatesFor(limits().nodes))};
}

TreeOffer NamedPolicy::OfferTree() {
  const int max_children = std::max(kMinChildren, policy().CandidatesFor(limits().nodes));
  grown_ = {DraftTree(root()), limits().reason};
  if (has_room()) {
    from_prior_ = marginals().empty() && candidates().has_prior();
    if (from_prior_) {
      const auto listed = candidates().FromPrior(limits().depth, max_children);
      grown_ = rule_.Grow(root(), *listed, limits(), RequestCandidates::kPriorDepth, *costs_);
    } else {
      const auto listed = candidates().FromDraft(marginals(), limits().depth, max_children);
      grown_ = rule_.Grow(root(), *listed, limits(), marginals().positions, *costs_);
    }
  } else if (!policy().wants_draft()) {
    grown_.reason = BudgetReason::kPolicy;
  }
  return {.certain = grown_.tree.nodes()};
}

GrownTree NamedPolicy::FinishTree(int /*nodes*/, BudgetReason /*reason*/) {
  return std::move(grown_);
}

void NamedPolicy::Learn(const GrownTree& /*grown*/, absl::Span<const TokenId> chosen) {
  candidates().ObserveChoices(marginals().empty() ? nullptr : &marginals(), from_prior_, chosen);
}

}  // namespace bastion
