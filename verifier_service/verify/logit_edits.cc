#include "verifier_service/verify/logit_edits.h"

#include <algorithm>
#include <limits>

namespace bastion::verifier {
namespace {

float Penalized(float logit, const SamplingParams& sampling, const TokenHistory::Count& count) {
  if (count.prompt + count.output == 0) return logit;
  const float penalty = sampling.repetition_penalty;
  logit = logit > 0 ? logit / penalty : logit * penalty;
  if (count.output == 0) return logit;
  return logit - sampling.frequency_penalty * static_cast<float>(count.output) -
         sampling.presence_penalty;
}

}  // namespace

void LogitEdits::Set(float* logit, float value) {
  edits_.push_back({logit, *logit});
  *logit = value;
}

void LogitEdits::EditRow(const SamplingParams& sampling, const TokenHistory& history,
                         float* logits) {
  for (const auto& [token, bias] : sampling.logit_bias) Set(&logits[token], logits[token] + bias);
  if (history.output_tokens() < sampling.min_tokens) {
    for (const TokenId token : sampling.stop_tokens) {
      Set(&logits[token], -std::numeric_limits<float>::infinity());
    }
  }
  if (!sampling.penalizes()) return;
  for (const auto& [token, count] : history.counts()) {
    Set(&logits[token], Penalized(logits[token], sampling, count));
  }
}

void LogitEdits::EditTree(const SamplingParams& sampling, const DraftTree& tree, int vocabulary,
                          TokenHistory& history, float* logits) {
  ForEachNodeHistory(tree, history, [&](NodeIndex node) {
    EditRow(sampling, history, logits + static_cast<int64_t>(node) * vocabulary);
  });
}

void LogitEdits::KeepRow(int vocabulary, float* logits) {
  kept_.push_back({logits, {logits, logits + vocabulary}});
}

void MaskRow(const TokenSet& allowed, float* logits) {
  constexpr float kExcluded = -std::numeric_limits<float>::infinity();
  const int vocabulary = allowed.vocabulary();
  for (int begin = 0; begin < vocabulary; begin += TokenSet::kBits) {
    const uint32_t word = allowed.words()[begin / TokenSet::kBits];
    if (word == ~uint32_t{0}) continue;
    const int end = std::min(begin + TokenSet::kBits, vocabulary);
    for (int token = begin; token < end; ++token) {
      logits[token] = (word >> (token - begin) & 1) != 0 ? logits[token] : kExcluded;
    }
  }
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

void LogitEdits::Undo() {
  for (const KeptRow& row : kept_) std::copy(row.before.begin(), row.before.end(), row.logits);
  kept_.clear();
  for (auto edit = edits_.rbegin(); edit != edits_.rend(); ++edit) *edit->logit = edit->before;
  edits_.clear();
}

}  // namespace bastion::verifier
