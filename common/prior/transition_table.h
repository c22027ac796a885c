// TransitionTable: how often tokens followed other tokens in a large text. bastion-train prior
// builds the table once; draft trees use it through TransitionGains (orchestrator/prior).
//
// A context is the last token or the last two tokens. A continuation is a token that followed a
// context; its count is how often it did. The table stores, for each context, the total count of
// all continuations, and the most frequent continuations with their counts. It is sparse: a context
// may be missing, and rare continuations may have been dropped. The program that builds the table
// bounds its size.
//
// Thread-safe: immutable. A lookup of a pair is a binary search.
#ifndef BASTION_COMMON_PRIOR_TRANSITION_TABLE_H_
#define BASTION_COMMON_PRIOR_TRANSITION_TABLE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/ids.h"

namespace bastion {

// The continuations of one context. An unknown context has a total of 0.
struct Continuations {
  float total = 0;                    // Sum of all counts, including those of dropped tokens.
  absl::Span<const TokenId> tokens;   // The most frequent continuations.
  absl::Span<const uint16_t> counts;  // Parallel to `tokens`.
};

class TransitionTable {
 public:
  // The columns of the file. Contexts are numbered: first the V single tokens by id, then the M
  // pairs in the order of `pairs`.
  struct Columns {
    int vocabulary = 0;                 // V
    std::vector<uint32_t> occurrences;  // [V] how often each token occurs in the text, saturating
    std::vector<uint64_t> pairs;        // [M] previous · V + last, increasing
    std::vector<uint32_t> totals;       // [V + M] as in Continuations
    std::vector<uint32_t> offsets;      // [V + M + 1] first entry in `tokens` and `counts`
    std::vector<TokenId> tokens;        // [E] by decreasing count within a context
    std::vector<uint16_t> counts;       // [E] their sum is at most the context's total
  };

  // INVALID_ARGUMENT naming the invalid column and entry.
  [[nodiscard]] static absl::StatusOr<TransitionTable> Make(Columns columns);

  [[nodiscard]] int vocabulary() const { return columns_.vocabulary; }
  [[nodiscard]] const Columns& columns() const { return columns_; }

  // Relative frequency of `token` in the text, smoothed by half a count: above 0 for every token.
  // REQUIRES, here and below: tokens lie in [0, vocabulary).
  [[nodiscard]] float Probability(TokenId token) const { return probabilities_[token]; }

  // Continuations of the context `last`, or of the context {previous, last}.
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
