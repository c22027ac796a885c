// Chooses the token after every row of a forward, and computes the log-probabilities of the
// committed tokens.
#ifndef BASTION_VERIFIER_SERVICE_VERIFY_CHOOSE_TOKENS_H_
#define BASTION_VERIFIER_SERVICE_VERIFY_CHOOSE_TOKENS_H_

#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/stages/draft_tree.h"
#include "common/stages/stage_data.h"
#include "engine/model/device.h"
#include "engine/model/page_pool.h"
#include "verifier_service/verify/token_history.h"

namespace bastion::verifier {

// Logits [R, V] of a forward. Shape legend: common/base/ids.h.
struct LogitRows {
  float* values = nullptr;
  int rows = 0;
  int vocabulary = 0;

  [[nodiscard]] float* row(int index) const { return values + int64_t{index} * vocabulary; }
};

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
  // The logits are edited before the choice.
  [[nodiscard]] bool edits_logits() const {
    return sampling->edits_logits() || (masks != nullptr && !masks->set_of_row.empty());
  }
};

// The number of rows of `trees`.
[[nodiscard]] int RowCount(absl::Span<const TreeRows> trees);

// The error returned for a tree with a row whose logits are NaN or exclude every token.
[[nodiscard]] absl::Status NanLogits();

// [row_count] The choice rule for the token after each row.
[[nodiscard]] std::vector<kernels::ChoiceRule> RulesOf(absl::Span<const TreeRows> trees,
                                                       int row_count);

// [R] The choice after each row; −1 if the row's logits are NaN or exclude every token. `trees`
// must cover all rows. The logits are edited in place and restored before this returns, except
// those of tokens that a constraint excludes, if the request asks for no log-probabilities.
[[nodiscard]] std::vector<TokenId> ChooseTokens(const nn::Device& device, const LogitRows& logits,
                                                absl::Span<const TreeRows> trees);

// Returns the unedited logits [V] after a node. They stay valid until the next call.
using LogitsOfNode = absl::FunctionRef<const float*(NodeIndex node)>;

// Returns one entry per committed token: the accepted nodes and `acceptance.next`. Each has the
// token's log-probability under the unedited logits. If the request asks for them, it also has
// those of the most probable tokens.
[[nodiscard]] std::vector<TokenLogprobs> LogprobsOf(const nn::Device& device,
                                                    LogitsOfNode logits_of, int vocabulary,
                                                    const TreeRows& tree,
                                                    const Acceptance& acceptance);

}  // namespace bastion::verifier

#endif  // BASTION_VERIFIER_SERVICE_VERIFY_CHOOSE_TOKENS_H_
