#include "orchestrator/policy/named_request.h"

#include <algorithm>
#include <utility>

namespace bastion {
namespace {

// Nodes list this many children, or as many as the tree has nodes.
constexpr int kMinChildren = 32;

}  // namespace

std::optional<DraftRound> NamedRequest::PlanRound() {
  if (!policy().wants_draft()) return std::nullopt;
  DraftRound round = {.required = true,
                      .candidates = std::max(1, policy().CandidatesFor(limits().nodes))};
  if (rounds() == 0) return round;
  round.paths = draft().TakeMissing();
  if (round.paths.empty() || rounds() >= kind_.max_rounds()) return std::nullopt;
  const FurtherRound further = {grown_->tree, round.paths, rounds(), draft().positions(), limits()};
  if (!kind_.RoundPays(further, *costs_)) return std::nullopt;
  return round;
}

void NamedRequest::Grow() {
  const int max_children = std::max(kMinChildren, policy().CandidatesFor(limits().nodes));
  from_prior_ = draft().empty() && candidates().has_prior();
  if (from_prior_) {
    const auto listed = candidates().FromPrior(limits().depth, max_children);
    grown_ = kind_.Grow(root(), *listed, limits(), CandidateSource::kPriorDepth, *costs_);
  } else {
    const auto listed = candidates().FromDraft(draft(), limits().depth, max_children);
    const int horizon = std::min(draft().max_depth(), kind_.max_rounds());
    grown_ = kind_.Grow(root(), *listed, limits(), horizon, *costs_);
  }
}

TreeProposal NamedRequest::ProposeTree() {
  if (!has_room()) {
    grown_ = {DraftTree(root()), policy().wants_draft() ? limits().reason : BudgetReason::kPolicy};
  } else if (!grown_.has_value()) {
    Grow();
  }
  return {.certain = grown_->tree.nodes()};
}

GrownTree NamedRequest::FinishTree(int /*nodes*/, BudgetReason /*reason*/) {
  return *std::exchange(grown_, std::nullopt);
}

void NamedRequest::Learn(const GrownTree& grown, absl::Span<const TokenId> chosen) {
  // The last chosen token is not a node.
  if (own_kind_ != nullptr) own_kind_->Observe(grown.tree, static_cast<int>(chosen.size()) - 1);
  candidates().ObserveChoices(draft(), from_prior_, chosen);
}

}  // namespace bastion
