// The acceptance walk (DDTree §3.3). It starts at the root and follows the child whose token the
// target chose from the current row. The first choice that matches no child becomes the next root.
// So every committed token is the target's own choice given its true prefix.
#ifndef BASTION_VERIFIER_SERVICE_VERIFY_ACCEPT_H_
#define BASTION_VERIFIER_SERVICE_VERIFY_ACCEPT_H_

#include "absl/types/span.h"
#include "common/stages/draft_tree.h"
#include "common/stages/stage_data.h"

namespace bastion::verifier {

// `choices` [rows]: the target's next token after each row of `tree`.
[[nodiscard]] Acceptance Accept(const DraftTree& tree, absl::Span<const TokenId> choices);

}  // namespace bastion::verifier

#endif  // BASTION_VERIFIER_SERVICE_VERIFY_ACCEPT_H_
