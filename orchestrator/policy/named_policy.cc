#include "orchestrator/policy/named_policy.h"

#include <algorithm>
#include <utility>

namespace bastion {
namespace {

// Nodes list this many children, or as many as the tree has nodes.
constexpr int kMinChildren = 32;

}  // namespace

void NamedPolicy::ObservePrompt(absl::Span<const TokenId> prompt) {
  for (const TokenId token : prompt) candidates_.Append(token);
}

void NamedPolicy::Begin(TokenId root, const TreeLimits& limits,
                        absl::Span<const double> /*min_values*/) {
  limits_ = limits;
  drafted_ = from_prior_ = false;
  marginals_ = {};
  root_ = root;
}

const DraftRound* NamedPolicy::NextRound() {
  if (drafted_ || !policy().wants_draft() || limits_.nodes == 0 || limits_.depth == 0) {
    return nullptr;
  }
  round_ = {.required = true, .candidates = std::max(1, policy().CandidatesFor(limits_.nodes))};
  return &round_;
}

void NamedPolicy::AddDraft(Marginals marginals) {
  drafted_ = true;
  marginals_ = std::move(marginals);
}

TreeOffer NamedPolicy::OfferTree() {
  const int max_children = std::max(kMinChildren, policy().CandidatesFor(limits_.nodes));
  SizedTree sized = {DraftTree(root_), limits_.reason};
  if (limits_.nodes > 0 && limits_.depth > 0) {
    from_prior_ = marginals_.empty() && candidates_.has_prior();
    if (from_prior_) {
      const auto listed = candidates_.FromPrior(limits_.depth, max_children);
      sized = rule_.Grow(root_, *listed, limits_, RequestCandidates::kPriorDepth, *costs_);
    } else {
      const auto listed = candidates_.FromDraft(marginals_, limits_.depth, max_children);
      sized = rule_.Grow(root_, *listed, limits_, marginals_.positions, *costs_);
    }
  } else if (!policy().wants_draft()) {
    sized.reason = BudgetReason::kPolicy;
  }
  if (drafted_ && marginals_.empty()) sized.reason = BudgetReason::kNoDraft;
  grown_ = {std::move(sized.tree), sized.reason, drafted_};
  return {.certain = grown_.tree.nodes()};
}

GrownTree NamedPolicy::Finish(int /*nodes*/, BudgetReason /*reason*/) { return std::move(grown_); }

void NamedPolicy::Observe(const GrownTree& grown, const Acceptance& acceptance) {
  const std::vector<TokenId> chosen = ChosenTokens(grown.tree, acceptance);
  candidates_.ObserveChoices(marginals_.empty() ? nullptr : &marginals_, from_prior_, chosen);
  for (const TokenId token : chosen) candidates_.Append(token);
}

}  // namespace bastion
