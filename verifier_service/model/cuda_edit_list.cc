#include "verifier_service/model/cuda_edit_list.h"

#include <limits>

#include "absl/container/flat_hash_map.h"
#include "verifier_service/verify/logit_edits.h"

namespace bastion::verifier {
namespace {

using kernels::cuda::LogitEdit;

// The edits of a row for biases and excluded tokens. Their number does not grow with the text.
absl::flat_hash_map<TokenId, LogitEdit> GivenEdits(const SamplingParams& sampling,
                                                   const TokenHistory& history,
                                                   const TokenSet* allowed) {
  absl::flat_hash_map<TokenId, LogitEdit> edits;
  for (const auto& [token, bias] : sampling.logit_bias) edits[token].bias += bias;
  if (history.output_tokens() < sampling.min_tokens) {
    for (const TokenId token : sampling.stop_tokens) {
      edits[token].bias = -std::numeric_limits<float>::infinity();
    }
  }
  if (allowed == nullptr) return edits;
  for (TokenId token = 0; token < allowed->vocabulary(); ++token) {
    if (!allowed->contains(token)) edits[token].bias = -std::numeric_limits<float>::infinity();
  }
  return edits;
}

void AddPenalties(const SamplingParams& sampling, const TokenHistory::Count& count,
                  LogitEdit& edit) {
  edit.penalty = sampling.repetition_penalty;
  if (count.output == 0) return;
  edit.frequency = sampling.frequency_penalty * static_cast<float>(count.output);
  edit.presence = sampling.presence_penalty;
}

void AddRow(const TreeRows& rows, NodeIndex node, std::vector<LogitEdit>& list) {
  const SamplingParams& sampling = *rows.sampling;
  const TokenHistory& history = *rows.history;
  const auto add = [&](TokenId token, LogitEdit edit) {
    edit.row = rows.first_row + node;
    edit.token = token;
    list.push_back(edit);
  };
  absl::flat_hash_map<TokenId, LogitEdit> given = GivenEdits(sampling, history, rows.Allowed(node));
  if (sampling.penalizes()) {
    for (const auto& [token, count] : history.counts()) {
      if (count.prompt + count.output == 0) continue;
      LogitEdit edit;
      if (const auto found = given.find(token); found != given.end()) {
        edit = found->second;
        given.erase(found);
      }
      AddPenalties(sampling, count, edit);
      add(token, edit);
    }
  }
  for (const auto& [token, edit] : given) add(token, edit);
}

}  // namespace

std::vector<LogitEdit> EditList(absl::Span<const TreeRows> trees) {
  std::vector<LogitEdit> list;
  for (const TreeRows& rows : trees) {
    if (!rows.edits_logits()) continue;
    ForEachNodeHistory(*rows.tree, *rows.history,
                       [&](NodeIndex node) { AddRow(rows, node, list); });
  }
  return list;
}

}  // namespace bastion::verifier
