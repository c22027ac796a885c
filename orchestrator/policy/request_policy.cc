#include "orchestrator/policy/request_policy.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/check.h"

namespace bastion {

void RequestPolicy::Begin(TokenId root, const TreeLimits& limits,
                          absl::Span<const double> min_values) {
  root_ = root;
  limits_ = limits;
  round_.reset();
  rounds_ = 0;
  ended_ = false;
  draft_.Clear();
  OnBegin(min_values);
}

const DraftRound* RequestPolicy::NextRound() {
  if (ended_ || !has_room()) return nullptr;
  if (rounds_ > 0 && !draft_.expands_nodes()) return nullptr;
  round_ = PlanRound();
  if (!round_.has_value()) return nullptr;
  round_->further = rounds_ > 0;
  return &*round_;
}

void RequestPolicy::AddDraft(std::vector<Marginals> marginals, bool expands_nodes) {
  CHECK(round_.has_value()) << "there was no round";
  ++rounds_;
  draft_.set_expands_nodes(expands_nodes);
  const int before = draft_.places();
  for (size_t i = 0; i < std::min(round_->paths.size(), marginals.size()); ++i) {
    draft_.Add(round_->paths[i], std::move(marginals[i]));
  }
  ended_ = draft_.places() == before;
  OnDraft();
}

GrownTree RequestPolicy::Finish(int nodes, BudgetReason reason) {
  GrownTree grown = FinishTree(nodes, reason);
  grown.drafted = rounds_ > 0;
  if (grown.drafted && draft_.empty()) grown.reason = BudgetReason::kNoDraft;
  return grown;
}

void RequestPolicy::Observe(const GrownTree& grown, const Acceptance& acceptance) {
  const std::vector<TokenId> chosen = ChosenTokens(grown.tree, acceptance);
  if (reliability_ != nullptr) {
    ObserveReliability(grown.tree, chosen, uncalibrated(), reliability_);
  }
  Learn(grown, chosen);
  for (const TokenId token : chosen) candidates_.Append(token);
}

}  // namespace bastion
