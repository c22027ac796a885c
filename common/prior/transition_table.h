// TransitionTable: which tokens followed which in a large text, and how often. Plain data, counted
// once (bastion-train prior); trees look it up through TransitionGains (orchestrator/tree).
//
// A context is the last token, or the last two. Each keeps the total of what followed it and its
// most frequent continuations; the table is sparse, so a context may be unknown and a continuation
// may have been dropped. What is kept is bounded by who builds the table, not by the vocabulary.
//
// Thread-safe: immutable. A pair is found by binary search.
#ifndef BASTION_COMMON_PRIOR_TRANSITION_TABLE_H_
#define BASTION_COMMON_PRIOR_TRANSITION_TABLE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/ids.h"

namespace bastion {

// What followed one context. An unknown context has a total of 0.
struct Continuations {
  float total = 0;  // Of all continuations, those that are not kept included.
  absl::Span<const TokenId> tokens;
  absl::Span<const uint16_t> counts;  // Of `tokens`, in their order.
};

class TransitionTable {
 public:
  // The table as a file holds it. Contexts are numbered: first the V single tokens by their id,
  // then the pairs in the order of `pairs`.
  struct Columns {
    int vocabulary = 0;                 // V
    std::vector<uint32_t> occurrences;  // [V] of each token in the text, saturating.
    std::vector<uint64_t> pairs;        // [M] previous · V + last, rising.
    std::vector<uint32_t> totals;       // [V + M] continuations that were counted.
    std::vector<uint32_t> offsets;      // [V + M + 1] into `tokens` and `counts`.
    std::vector<TokenId> tokens;        // [E] by falling count within a context.
    std::vector<uint16_t> counts;       // [E] at most the context's total in sum.
  };

  // INVALID_ARGUMENT, saying which column is wrong and where.
  [[nodiscard]] static absl::StatusOr<TransitionTable> Make(Columns columns);

  [[nodiscard]] int vocabulary() const { return columns_.vocabulary; }
  [[nodiscard]] const Columns& columns() const { return columns_; }

  // The share of `token` in the text, smoothed by half a count: above 0 for every token.
  // REQUIRES, here and below: tokens lie in [0, vocabulary).
  [[nodiscard]] float Probability(TokenId token) const { return probabilities_[token]; }

  [[nodiscard]] Continuations After(TokenId last) const { return Context(last); }
  [[nodiscard]] Continuations After(TokenId previous, TokenId last) const;

 private:
  explicit TransitionTable(Columns columns);
  [[nodiscard]] Continuations Context(size_t context) const;

  Columns columns_;
  std::vector<float> probabilities_;  // [V]
};

}  // namespace bastion

#endif  // BASTION_COMMON_PRIOR_TRANSITION_TABLE_H_
