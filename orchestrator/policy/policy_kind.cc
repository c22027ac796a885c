#include "orchestrator/policy/policy_kind.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "orchestrator/policy/named_request.h"

namespace bastion {

std::optional<int> ParsePolicyNumber(std::string_view text) {
  int number = 0;
  if (!std::all_of(text.begin(), text.end(), absl::ascii_isdigit) ||
      !absl::SimpleAtoi(absl::string_view(text.data(), text.size()), &number) || number < 1 ||
      number > kLargestPolicyNumber) {
    return std::nullopt;
  }
  return number;
}

std::unique_ptr<RequestPolicy> NamedPolicyKind::NewRequest(const PolicyContext& context) const {
  return std::make_unique<NamedRequest>(*this, context);
}

GrownTree NamedPolicyKind::Limit(DraftTree tree, int wanted, const TreeLimits& limits,
                                 int horizon) {
  tree.Truncate(std::min(tree.nodes(), limits.nodes));
  if (tree.nodes() == wanted) return {std::move(tree), BudgetReason::kPolicy};
  if (tree.nodes() == limits.nodes) return {std::move(tree), limits.reason};
  const bool cut = limits.depth < horizon;
  return {std::move(tree), cut ? BudgetReason::kLength : BudgetReason::kExhausted};
}

}  // namespace bastion
