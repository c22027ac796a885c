#include "verifier_service/verify/accept.h"

#include "common/base/check.h"

namespace bastion::verifier {

Acceptance Accept(const DraftTree& tree, absl::Span<const TokenId> choices) {
  CHECK_EQ(static_cast<int>(choices.size()), tree.rows());
  Acceptance acceptance;
  NodeIndex at = 0;
  acceptance.next = choices[0];
  // Children come after their parents, so one pass finds the whole path.
  for (NodeIndex child = 1; child < tree.rows(); ++child) {
    if (tree.parent(child) != at || tree.token(child) != acceptance.next) continue;
    acceptance.path.push_back(child);
    at = child;
    acceptance.next = choices[child];
  }
  return acceptance;
}

}  // namespace bastion::verifier
