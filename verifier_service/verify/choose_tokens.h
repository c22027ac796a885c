// The target's choice after every row of a forward, and what it thought of those that were taken.
#ifndef BASTION_VERIFIER_SERVICE_VERIFY_CHOOSE_TOKENS_H_
#define BASTION_VERIFIER_SERVICE_VERIFY_CHOOSE_TOKENS_H_

#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/nn/device.h"
#include "common/nn/page_pool.h"
#include "common/stages/draft_tree.h"
#include "common/stages/stage_data.h"
#include "verifier_service/verify/token_history.h"

namespace bastion::verifier {

// Logits [R, V] of a forward.
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
  TokenHistory* history = nullptr;  // Of the committed text.
  const nn::PageTable* table = nullptr;
};

// What a tree is answered whose logits are NaN.
[[nodiscard]] absl::Status NanLogits();

// How the token after each row is chosen: [row_count].
[[nodiscard]] std::vector<kernels::ChoiceRule> RulesOf(absl::Span<const TreeRows> trees,
                                                       int row_count);

// The choice after each row: [R], −1 where the logits are NaN or rule every token out. `trees`
// cover all rows. The logits are worked on, and are as before afterwards.
[[nodiscard]] std::vector<TokenId> ChooseTokens(const nn::Device& device, const LogitRows& logits,
                                                absl::Span<const TreeRows> trees);

// What the target's own distribution says of the tokens that `acceptance` took from `tree`, with as
// many of the likeliest ones as its request asked for. `logits_of` gives the logits [V] after a
// node, good until it is asked again.
using LogitsOfNode = absl::FunctionRef<const float*(NodeIndex node)>;
[[nodiscard]] std::vector<TokenLogprobs> LogprobsOf(const nn::Device& device,
                                                    LogitsOfNode logits_of, int vocabulary,
                                                    const TreeRows& tree,
                                                    const Acceptance& acceptance);

}  // namespace bastion::verifier

#endif  // BASTION_VERIFIER_SERVICE_VERIFY_CHOOSE_TOKENS_H_
