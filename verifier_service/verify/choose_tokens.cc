#include "verifier_service/verify/choose_tokens.h"

#include <algorithm>

#include "kernels/ops/backend.h"
#include "verifier_service/verify/logit_edits.h"

namespace bastion::verifier {
namespace {

TokenLogprobs LogprobsOfRow(const nn::Device& device, const float* logits, int vocabulary,
                            TokenId chosen, int wanted) {
  const int candidates = std::clamp(wanted, 1, vocabulary);
  std::vector<TokenId> tokens(candidates);
  std::vector<float> values(candidates);
  device.backend->top_k({logits, nullptr, tokens.data(), values.data(), 1, vocabulary, candidates},
                        *device.pool);
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
      "may be damaged, or it overflows in this dtype; try --dtype fp32");
}

std::vector<kernels::ChoiceRule> RulesOf(absl::Span<const TreeRows> trees, int row_count) {
  std::vector<kernels::ChoiceRule> rules(row_count);
  for (const TreeRows& rows : trees) {
    const SamplingParams& sampling = *rows.sampling;
    for (NodeIndex node = 0; node < rows.tree->rows(); ++node) {
      // A row chooses the token at the next position.
      rules[rows.first_row + node] = {
          sampling.temperature, sampling.seed,  rows.cached + rows.tree->depth(node) + 1,
          sampling.top_k,       sampling.top_p, sampling.min_p};
    }
  }
  return rules;
}

std::vector<TokenId> ChooseTokens(const nn::Device& device, const LogitRows& logits,
                                  absl::Span<const TreeRows> trees) {
  LogitEdits edits;
  for (const TreeRows& rows : trees) {
    if (rows.sampling->edits_logits()) {
      edits.EditTree(*rows.sampling, *rows.tree, logits.vocabulary, *rows.history,
                     logits.row(rows.first_row));
    }
  }
  for (const TreeRows& rows : trees) {
    for (NodeIndex row = 0; row < rows.tree->rows(); ++row) {
      const TokenSet* const allowed = rows.Allowed(row);
      if (allowed == nullptr) continue;
      float* const values = logits.row(rows.first_row + row);
      // Log-probabilities are those without the constraint.
      if (rows.sampling->logprobs) edits.KeepRow(logits.vocabulary, values);
      MaskRow(*allowed, values);
    }
  }
  const std::vector<kernels::ChoiceRule> rules = RulesOf(trees, logits.rows);
  std::vector<TokenId> choices(logits.rows);
  device.backend->choose(
      {logits.values, rules.data(), choices.data(), logits.rows, logits.vocabulary}, *device.pool);
  return choices;
}

std::vector<TokenLogprobs> LogprobsOf(const nn::Device& device, LogitsOfNode logits_of,
                                      int vocabulary, const TreeRows& tree,
                                      const Acceptance& acceptance) {
  std::vector<TokenLogprobs> result;
  NodeIndex from = 0;
  const auto add = [&](TokenId chosen) {
    result.push_back(LogprobsOfRow(device, logits_of(from), vocabulary, chosen,
                                   tree.sampling->logprobs.value_or(0)));
  };
  for (const NodeIndex node : acceptance.path) {
    add(tree.tree->token(node));
    from = node;
  }
  add(acceptance.next);
  return result;
}

}  // namespace bastion::verifier
