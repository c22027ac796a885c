#include "verifier_service/verify/tree_rows.h"

#include <algorithm>

#include "common/base/status.h"
#include "kernels/ops/backend.h"

namespace bastion::verifier {
namespace {

TokenLogprobs LogprobsOfRow(const nn::HostKernels& host, const float* logits, int vocabulary,
                            TokenId chosen, int wanted) {
  const int candidates = std::clamp(wanted, 1, vocabulary);
  std::vector<TokenId> tokens(candidates);
  std::vector<float> values(candidates);
  host.backend->top_k({logits, nullptr, tokens.data(), values.data(), 1, vocabulary, candidates},
                      *host.pool);
  TokenLogprobs result;
  if (tokens[0] < 0) {  // Too many logits of the row are NaN.
    result.chosen = values[0];
    return result;
  }
  result.chosen = logits[chosen] - logits[tokens[0]] + values[0];
  for (int i = 0; i < wanted; ++i) result.top.emplace_back(tokens[i], values[i]);
  return result;
}

}  // namespace

int RowCount(absl::Span<const TreeRows> trees) {
  int rows = 0;
  for (const TreeRows& tree : trees) rows += tree.tree->rows();
  return rows;
}

absl::Status NanLogits() {
  return absl::DataLossError(
      "no token can be chosen: the target's logits are NaN or exclude every token. The checkpoint "
      "may be damaged, or it overflows in this format; try --weights fp32");
}

std::vector<kernels::ChoiceRule> RulesOf(absl::Span<const TreeRows> trees, int row_count) {
  std::vector<kernels::ChoiceRule> rules(row_count);
  for (const TreeRows& rows : trees) {
    const SamplingParams& sampling = *rows.sampling;
    for (NodeIndex node = 0; node < rows.tree->rows(); ++node) {
      // A row chooses the token at the next position.
      rules[rows.first_row + node.value()] = {
          sampling.temperature, sampling.seed,  rows.cached + rows.tree->depth(node) + 1,
          sampling.top_k,       sampling.top_p, sampling.min_p};
    }
  }
  return rules;
}

absl::StatusOr<std::vector<TokenLogprobs>> LogprobsOf(const nn::HostKernels& host,
                                                      LogitsOfNode logits_of, int vocabulary,
                                                      const TreeRows& tree,
                                                      const Acceptance& acceptance) {
  std::vector<TokenLogprobs> result;
  NodeIndex from = 0;
  const auto add = [&](TokenId chosen) -> absl::Status {
    ASSIGN_OR_RETURN(const float* const logits, logits_of(from));
    result.push_back(
        LogprobsOfRow(host, logits, vocabulary, chosen, tree.sampling->logprobs.value_or(0)));
    return absl::OkStatus();
  };
  for (const NodeIndex node : acceptance.path) {
    RETURN_IF_ERROR(add(tree.tree->token(node)));
    from = node;
  }
  RETURN_IF_ERROR(add(acceptance.next));
  return result;
}

}  // namespace bastion::verifier
