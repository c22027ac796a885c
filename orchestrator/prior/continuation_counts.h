// ContinuationCounts: which tokens followed which contexts, counted while text comes in, in bounded
// memory. The request's own bigrams and longer are kept in one of these, dropped with the request.
//
// A context is any short run of tokens, known by a hash. It keeps its kWidth most frequent
// continuations; when the contexts reach their bound, a new one takes the place of the least used
// of its neighbourhood. So counts can be lost, and once in 2³² a context is taken for another:
// this is evidence for drafts, and drafts may be wrong.
//
// Add and After take tens of nanoseconds. Copyable. Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_PRIOR_CONTINUATION_COUNTS_H_
#define BASTION_ORCHESTRATOR_PRIOR_CONTINUATION_COUNTS_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/prior/transition_table.h"

namespace bastion {

class ContinuationCounts {
 public:
  static constexpr int kWidth = 8;
  static constexpr size_t kBytesPerContext = 64;

  // Keeps at most `most_contexts` (rounded up to a power of two), 64 bytes each; starts small.
  explicit ContinuationCounts(size_t most_contexts);

  // `next` followed `context`. REQUIRES: the context is not empty.
  void Add(absl::Span<const TokenId> context, TokenId next);

  // Valid until the next Add. In no order; an unknown context has a total of 0.
  [[nodiscard]] Continuations After(absl::Span<const TokenId> context) const;

  // All of it, as a file holds it. S is room(); a slot of total 0 is free.
  struct Columns {
    std::vector<uint32_t> hashes;  // [S] of the contexts.
    std::vector<float> totals;     // [S]
    std::vector<uint16_t> sizes;   // [S] continuations that count.
    std::vector<TokenId> tokens;   // [S, kWidth]
    std::vector<uint16_t> counts;  // [S, kWidth]
  };
  [[nodiscard]] Columns ToColumns() const;
  // INVALID_ARGUMENT for columns that do not fit together, `most_contexts` or the vocabulary.
  [[nodiscard]] static absl::StatusOr<ContinuationCounts> FromColumns(const Columns& columns,
                                                                      size_t most_contexts,
                                                                      int vocabulary);

  // Calls of Add so far: whether there is anything new.
  [[nodiscard]] int64_t added() const { return added_; }

  // Contexts that there is room for now; never more than the bound.
  [[nodiscard]] size_t room() const { return slots_.size(); }

 private:
  struct alignas(kBytesPerContext) Slot {
    uint32_t hash = 0;
    float total = 0;  // 0: the slot is free.
    std::array<TokenId, kWidth> tokens;
    std::array<uint16_t, kWidth> counts;
    uint16_t size = 0;
  };
  static_assert(sizeof(Slot) == kBytesPerContext);

  [[nodiscard]] const Slot* Find(uint32_t hash) const;
  // The slot of a context that is to be counted; may drop another one.
  [[nodiscard]] Slot& Claim(uint32_t hash);
  void Grow();

  size_t most_contexts_;
  std::vector<Slot> slots_;
  size_t used_ = 0;
  int64_t added_ = 0;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_PRIOR_CONTINUATION_COUNTS_H_
