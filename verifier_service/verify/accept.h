// The acceptance walk: from the root, follow the child that carries the token which the target
// chose from that row; the first choice that no child carries is the next root (method: DDTree
// §3.3). Every committed token is therefore the target's own choice given its true prefix.
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
