// TransitionCounter: counts which tokens follow each token and each pair of tokens in texts, and
// builds a TransitionTable.
//
// There is one map of counts for single tokens and one for pairs. Counts are exact until a map has
// more than `max_counted` entries. Then the quarter of its entries with the smallest counts is
// dropped (lossy counting); a dropped entry that occurs again starts from zero. So memory is
// bounded, frequent entries survive, and a count is never too large. The same texts in the same
// order give the same table.
//
// Thread-compatible.
#ifndef BASTION_TOOLS_TRAIN_PRIOR_TRANSITION_COUNTER_H_
#define BASTION_TOOLS_TRAIN_PRIOR_TRANSITION_COUNTER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/prior/transition_table.h"

namespace bastion::drafter {

// Limits on a table. It keeps the continuations with the largest counts; of equal counts, those
// with the smallest token ids.
struct TransitionLimits {
  int singles = 16;                 // Continuations per token.
  int pairs = 8;                    // Continuations per pair, out of those counted at least twice.
  int min_pair_total = 8;           // Pairs that were continued fewer times are dropped.
  int64_t max_entries = 4'000'000;  // Total continuations. The rarest pairs are dropped first.
};

// INVALID_ARGUMENT for limits out of range.
[[nodiscard]] absl::Status Validate(const TransitionLimits& limits);

class TransitionCounter {
 public:
  // Three token ids must fit into a 64-bit key.
  static constexpr int kMaxVocabulary = 1 << 21;
  // About 1 GB for each of the two maps, at 70 bytes per entry.
  static constexpr int64_t kMaxCounted = 14'000'000;

  // REQUIRES: 1 <= vocabulary <= kMaxVocabulary, max_counted >= 1.
  explicit TransitionCounter(int vocabulary, int64_t max_counted = kMaxCounted);

  // Counts one text. Tokens of different texts are not counted as consecutive. INVALID_ARGUMENT for
  // a token outside the vocabulary; then nothing is counted.
  [[nodiscard]] absl::Status Add(absl::Span<const TokenId> text);

  // Builds the table. If a count of a context exceeds 65535, all its counts and its total are
  // scaled down, and counts that become less than one are dropped. Returns the error
  // of Validate() for invalid limits.
  [[nodiscard]] absl::StatusOr<TransitionTable> Build(const TransitionLimits& limits) const;

  [[nodiscard]] int64_t texts() const { return texts_; }
  [[nodiscard]] int64_t tokens() const { return tokens_; }
  // Number of entries in memory, for tokens and for pairs.
  [[nodiscard]] size_t counted() const { return singles_.size() + pairs_.size(); }

 private:
  // Key: context · V + next token. Value: how often the token followed the context.
  using Counts = absl::flat_hash_map<uint64_t, uint64_t>;
  struct PairContext {
    uint64_t total = 0;    // How often any token followed the pair.
    uint32_t entries = 0;  // Entries in pairs_. A context without entries is dropped.
  };

  void CountSingle(TokenId last, TokenId next);
  void CountPair(uint64_t pair, TokenId next);

  uint64_t vocabulary_;
  size_t max_counted_;
  int64_t texts_ = 0, tokens_ = 0;
  std::vector<uint64_t> occurrences_;  // [V]
  std::vector<uint64_t> totals_;       // [V] how often any token followed each token
  Counts singles_;                     // The context is the last token.
  Counts pairs_;                       // The context is previous · V + last.
  absl::flat_hash_map<uint64_t, PairContext> pair_contexts_;  // Key: previous · V + last.
};

}  // namespace bastion::drafter

#endif  // BASTION_TOOLS_TRAIN_PRIOR_TRANSITION_COUNTER_H_
