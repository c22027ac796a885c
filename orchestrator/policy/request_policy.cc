#include "orchestrator/policy/request_policy.h"

#include <utility>
#include <vector>

namespace bastion {

void RequestPolicy::Begin(TokenId root, const TreeLimits& limits,
                          absl::Span<const double> min_values) {
  root_ = root;
  limits_ = limits;
  drafted_ = false;
  marginals_ = {};
  OnBegin(min_values);
}

const DraftRound* RequestPolicy::NextRound() {
  if (drafted_ || !has_room()) return nullptr;
  round_ = PlanRound();
  return round_.has_value() ? &*round_ : nullptr;
}

void RequestPolicy::AddDraft(Marginals marginals) {
  drafted_ = true;
  marginals_ = std::move(marginals);
  OnDraft();
}

GrownTree RequestPolicy::Finish(int nodes, BudgetReason reason) {
  GrownTree grown = FinishTree(nodes, reason);
  grown.drafted = drafted_;
  if (drafted_ && marginals_.empty()) grown.reason = BudgetReason::kNoDraft;
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
