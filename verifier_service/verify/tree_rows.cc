#include "verifier_service/verify/tree_rows.h"

namespace bastion::verifier {

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

std::vector<nn::Logits::Scored> ScoredRows(const TreeRows& tree, const Acceptance& acceptance) {
  const int top = tree.sampling->logprobs.value_or(0);
  std::vector<nn::Logits::Scored> scored;
  NodeIndex from = 0;
  for (const NodeIndex node : acceptance.path) {
    scored.push_back({tree.first_row + from.value(), tree.tree->token(node), top});
    from = node;
  }
  scored.push_back({tree.first_row + from.value(), acceptance.next, top});
  return scored;
}

}  // namespace bastion::verifier
