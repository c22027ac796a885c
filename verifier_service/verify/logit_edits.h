// The edits of logits that requests ask for: bias, minimum length, penalties, constraints. Their
// order and meaning: common/stages/sampling_params.h. nn::Logits applies them before tokens are
// chosen.
#ifndef BASTION_VERIFIER_SERVICE_VERIFY_LOGIT_EDITS_H_
#define BASTION_VERIFIER_SERVICE_VERIFY_LOGIT_EDITS_H_

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "common/stages/draft_tree.h"
#include "common/stages/sampling_params.h"
#include "engine/model/device.h"
#include "verifier_service/verify/token_history.h"
#include "verifier_service/verify/tree_rows.h"

namespace bastion::verifier {

// The edits and masks of all rows of `trees`, each as if the path to that row had been committed.
// Histories are extended during the call and restored. Restore() restores the rows that a
// constraint masks if the request asks for log-probabilities, which are those without it.
[[nodiscard]] nn::LogitEdits EditsOf(absl::Span<const TreeRows> trees);

// Edits the `logits` [V] of the row that follows all tokens of `history`, without constraints.
void EditRow(const SamplingParams& sampling, const TokenHistory& history, float* logits);

// Calls visit(node) for every row of `tree`. During the call, `history`, the text before the root,
// is extended by the path to that row. It is restored before this returns.
void ForEachNodeHistory(const DraftTree& tree, TokenHistory& history,
                        absl::FunctionRef<void(NodeIndex node)> visit);

}  // namespace bastion::verifier

#endif  // BASTION_VERIFIER_SERVICE_VERIFY_LOGIT_EDITS_H_
