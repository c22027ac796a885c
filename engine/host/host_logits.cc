#include "engine/host/host_logits.h"

#include <algorithm>
#include <limits>

namespace bastion::nn {
namespace {

constexpr int kSetBits = 32;

// Excludes all tokens that are not in `set` from the row `logits` [V].
void MaskRow(const uint32_t* set, int vocabulary, float* logits) {
  constexpr float kExcluded = -std::numeric_limits<float>::infinity();
  for (int begin = 0; begin < vocabulary; begin += kSetBits) {
    const uint32_t word = set[begin / kSetBits];
    if (word == ~uint32_t{0}) continue;
    const int end = std::min(begin + kSetBits, vocabulary);
    for (int token = begin; token < end; ++token) {
      logits[token] = (word >> (token - begin) & 1) != 0 ? logits[token] : kExcluded;
    }
  }
}

}  // namespace

absl::Status HostLogits::Edit(const LogitEdits& edits) {
  edited_.clear();
  kept_.clear();
  for (const kernels::LogitEdit& edit : edits.edits) {
    float* const logit = At(edit.row) + edit.token;
    edited_.push_back({logit, *logit});
    *logit = edit.Apply(*logit);
  }
  for (const int row : edits.kept) kept_.push_back({row, {At(row), At(row) + vocabulary_}});
  const int words = (vocabulary_ + kSetBits - 1) / kSetBits;
  for (const kernels::MaskedRow& masked : edits.masked) {
    MaskRow(edits.sets.data() + int64_t{masked.set} * words, vocabulary_, At(masked.row));
  }
  return absl::OkStatus();
}

void HostLogits::Restore() {
  for (const KeptRow& row : kept_) std::copy(row.before.begin(), row.before.end(), At(row.row));
  for (const Edited& edit : edited_) *edit.logit = edit.before;
  kept_.clear();
  edited_.clear();
}

void HostLogits::Choose(const Choice& choice) {
  host_.backend->choose({values_, choice.rules, choice.tokens, choice.rows, vocabulary_},
                        *host_.pool);
}

void HostLogits::Scale(int rows, float factor, float cap) {
  host_.backend->scale({values_, rows, vocabulary_, factor, cap}, *host_.pool);
}

void HostLogits::CopyRows(int rows, float* to) {
  std::copy_n(values_, int64_t{rows} * vocabulary_, to);
}

void HostLogits::Rank(const Ranking& ranking) {
  host_.backend->top_k({values_, ranking.coupling, ranking.tokens, ranking.log_probs, ranking.rows,
                        vocabulary_, ranking.candidates, ranking.ids},
                       *host_.pool);
}

absl::StatusOr<std::vector<TokenLogprobs>> HostLogits::Score(absl::Span<const Scored> scored) {
  std::vector<TokenLogprobs> results;
  for (const Scored& entry : scored) results.push_back(ScoreRow(entry));
  return results;
}

TokenLogprobs HostLogits::ScoreRow(const Scored& scored) const {
  const float* const logits = At(scored.row);
  const int candidates = std::clamp(scored.top, 1, vocabulary_);
  std::vector<TokenId> tokens(candidates);
  std::vector<float> values(candidates);
  host_.backend->top_k({logits, nullptr, tokens.data(), values.data(), 1, vocabulary_, candidates},
                       *host_.pool);
  TokenLogprobs result;
  if (tokens[0] < 0) {  // Too many logits of the row are NaN.
    result.chosen = values[0];
    return result;
  }
  result.chosen = logits[scored.token] - logits[tokens[0]] + values[0];
  const int wanted = std::min(scored.top, candidates);
  for (int i = 0; i < wanted; ++i) result.top.emplace_back(tokens[i], values[i]);
  return result;
}

}  // namespace bastion::nn
