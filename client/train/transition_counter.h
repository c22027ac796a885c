// Counts what follows each token and each pair of tokens in texts, and builds a TransitionTable.
//
// Counts are exact while they fit. Memory is bounded by lossy counting: when the counted
// continuations of tokens, or those of pairs, pass `max_counted`, the quarter seen least is dropped
// and starts from zero when it comes again. What is frequent all along survives; a count is never
// too large, and at most too small by what was dropped. The same texts in the same order give the
// same table.
//
// Not thread-safe.
#ifndef BASTION_CLIENT_TRAIN_TRANSITION_COUNTER_H_
#define BASTION_CLIENT_TRAIN_TRANSITION_COUNTER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/prior/transition_table.h"

namespace bastion::drafter {

// What a table keeps; continuations are ranked by count, then by token id.
struct TransitionLimits {
  int singles = 16;                 // Continuations of a token.
  int pairs = 8;                    // Continuations of a pair, of those seen at least twice.
  int min_pair_total = 8;           // Pairs that were followed less often are left out.
  int64_t max_entries = 4'000'000;  // Continuations in all: the rarest pairs go first.
};

// INVALID_ARGUMENT for limits out of range.
[[nodiscard]] absl::Status Validate(const TransitionLimits& limits);

class TransitionCounter {
 public:
  // Three tokens make one 64-bit key.
  static constexpr int kMaxVocabulary = 1 << 21;
  // About 1 GB: 70 bytes for each.
  static constexpr int64_t kMaxCounted = 14'000'000;

  // REQUIRES: 1 <= vocabulary <= kMaxVocabulary, max_counted >= 1.
  explicit TransitionCounter(int vocabulary, int64_t max_counted = kMaxCounted);

  // Counts one text; nothing is counted across its borders. INVALID_ARGUMENT, and nothing is
  // counted at all, for a token outside the vocabulary.
  [[nodiscard]] absl::Status Add(absl::Span<const TokenId> text);

  // INVALID_ARGUMENT as Validate says. A context whose counts pass 65535 is scaled down,
  // its total too; what then counts less than one is left out.
  [[nodiscard]] absl::StatusOr<TransitionTable> Build(const TransitionLimits& limits) const;

  [[nodiscard]] int64_t texts() const { return texts_; }
  [[nodiscard]] int64_t tokens() const { return tokens_; }
  // Continuations held now, of tokens and of pairs.
  [[nodiscard]] size_t counted() const { return singles_.size() + pairs_.size(); }

 private:
  // context · V + next token -> how often.
  using Counts = absl::flat_hash_map<uint64_t, uint64_t>;
  struct PairContext {
    uint64_t total = 0;
    uint32_t held = 0;  // Continuations in pairs_; a context without any is dropped.
  };

  void CountSingle(TokenId last, TokenId next);
  void CountPair(uint64_t pair, TokenId next);

  uint64_t vocabulary_;
  size_t max_counted_;
  int64_t texts_ = 0, tokens_ = 0;
  std::vector<uint64_t> occurrences_;                         // [V]
  std::vector<uint64_t> totals_;                              // [V] of what followed a token.
  Counts singles_, pairs_;                                    // By token; by previous · V + last.
  absl::flat_hash_map<uint64_t, PairContext> pair_contexts_;  // By previous · V + last.
};

}  // namespace bastion::drafter

#endif  // BASTION_CLIENT_TRAIN_TRANSITION_COUNTER_H_
