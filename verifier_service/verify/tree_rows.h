// The rows of a tree in a forward of the target, and how the token after each of them is chosen.
#ifndef BASTION_VERIFIER_SERVICE_VERIFY_TREE_ROWS_H_
#define BASTION_VERIFIER_SERVICE_VERIFY_TREE_ROWS_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/stages/draft_tree.h"
#include "common/stages/stage_data.h"
#include "engine/model/device.h"
#include "engine/model/page_pool.h"
#include "kernels/ops/ops.h"
#include "verifier_service/verify/token_history.h"

namespace bastion::verifier {

// One sequence's tree in the forward: its rows begin at `first_row`.
struct TreeRows {
  const DraftTree* tree = nullptr;
  Position cached = 0;
  int first_row = 0;
  const SamplingParams* sampling = nullptr;
  TokenHistory* history = nullptr;  // The committed tokens.
  const nn::PageTable* table = nullptr;
  const RowMasks* masks = nullptr;  // Those of the tree as it was sent. Null: none.
  // By row of `tree`: its node in the tree as it was sent. Null: the same.
  const std::vector<NodeIndex>* sent_nodes = nullptr;

  // The tokens that may be chosen after a row; null if all may.
  [[nodiscard]] const TokenSet* Allowed(NodeIndex row) const {
    if (masks == nullptr) return nullptr;
    return masks->Of(sent_nodes == nullptr ? row : (*sent_nodes)[row]);
  }
};

// The number of rows of `trees`.
[[nodiscard]] int RowCount(absl::Span<const TreeRows> trees);

// The error returned for a tree with a row whose logits are NaN or exclude every token.
[[nodiscard]] absl::Status NanLogits();

// [row_count] The choice rule for the token after each row.
[[nodiscard]] std::vector<kernels::ChoiceRule> RulesOf(absl::Span<const TreeRows> trees,
                                                       int row_count);

// [committed tokens] What the log-probabilities of a tree's outcome are computed from: the row from
// which each accepted node and `acceptance.next` were chosen, and the token.
[[nodiscard]] std::vector<nn::Logits::Scored> ScoredRows(const TreeRows& tree,
                                                         const Acceptance& acceptance);

}  // namespace bastion::verifier

#endif  // BASTION_VERIFIER_SERVICE_VERIFY_TREE_ROWS_H_
