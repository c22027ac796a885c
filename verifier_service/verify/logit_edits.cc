#include "verifier_service/verify/logit_edits.h"

#include <limits>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace bastion::verifier {
namespace {

using kernels::LogitEdit;

// The edits of a row for biases and the minimum length. Their number does not grow with the text.
absl::flat_hash_map<TokenId, LogitEdit> GivenEdits(const SamplingParams& sampling,
                                                   const TokenHistory& history) {
  absl::flat_hash_map<TokenId, LogitEdit> edits;
  for (const auto& [token, bias] : sampling.logit_bias) edits[token].bias += bias;
  if (history.output_tokens() < sampling.min_tokens) {
    for (const TokenId token : sampling.stop_tokens) {
      edits[token].bias = -std::numeric_limits<float>::infinity();
    }
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

// Adds the edits of row `row`, which follows all tokens of `history`. At most one per token.
void AddRow(const SamplingParams& sampling, const TokenHistory& history, int row,
            std::vector<LogitEdit>& list) {
  const auto add = [&](TokenId token, LogitEdit edit) {
    edit.row = row;
    edit.token = token;
    list.push_back(edit);
  };
  absl::flat_hash_map<TokenId, LogitEdit> given = GivenEdits(sampling, history);
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

void AddMasks(const TreeRows& rows, nn::LogitEdits& edits) {
  if (rows.masks == nullptr || rows.masks->sets.empty()) return;
  const size_t words = rows.masks->sets.front().words().size();
  const auto first = static_cast<int>(edits.sets.size() / words);
  for (NodeIndex node = 0; node < rows.tree->rows(); ++node) {
    const TokenSet* const allowed = rows.Allowed(node);
    if (allowed == nullptr) continue;
    const auto index = static_cast<int>(allowed - rows.masks->sets.data());
    const int row = rows.first_row + node.value();
    edits.masked.push_back({row, first + index});
    if (rows.sampling->logprobs) edits.kept.push_back(row);
  }
  for (const TokenSet& set : rows.masks->sets) {
    edits.sets.insert(edits.sets.end(), set.words().begin(), set.words().end());
  }
}

}  // namespace

nn::LogitEdits EditsOf(absl::Span<const TreeRows> trees) {
  nn::LogitEdits edits;
  for (const TreeRows& rows : trees) {
    if (rows.sampling->edits_logits()) {
      ForEachNodeHistory(*rows.tree, *rows.history, [&](NodeIndex node) {
        AddRow(*rows.sampling, *rows.history, rows.first_row + node.value(), edits.edits);
      });
    }
    AddMasks(rows, edits);
  }
  return edits;
}

void EditRow(const SamplingParams& sampling, const TokenHistory& history, float* logits) {
  std::vector<LogitEdit> edits;
  AddRow(sampling, history, /*row=*/0, edits);
  for (const LogitEdit& edit : edits) logits[edit.token] = edit.Apply(logits[edit.token]);
}

void ForEachNodeHistory(const DraftTree& tree, TokenHistory& history,
                        absl::FunctionRef<void(NodeIndex node)> visit) {
  std::vector<NodeIndex> path;
  for (NodeIndex node = 0; node < tree.rows(); ++node) {
    path.clear();
    for (NodeIndex at = node; at != kNoNode; at = tree.parent(at)) path.push_back(at);
    for (auto at = path.rbegin(); at != path.rend(); ++at) history.Push(tree.token(*at));
    visit(node);
    for (size_t i = 0; i < path.size(); ++i) history.Pop();
  }
}

}  // namespace bastion::verifier
