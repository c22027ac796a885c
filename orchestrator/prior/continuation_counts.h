// ContinuationCounts: counts online, in bounded memory, which tokens followed which contexts. Each
// request has its own object, which is destroyed with the request. LearnedPrior has one object for
// all requests.
//
// A context is any short run of tokens, identified by a 32-bit hash. For each context, the kWidth
// most frequent continuations are kept. When the hash table cannot grow further, a new context
// replaces the least used context near its slot. So counts can be lost, and in rare cases two
// contexts share one entry. Both are harmless: counts only influence drafts, and drafts may be
// wrong.
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

  // Keeps at most `max_contexts` contexts (rounded up to a power of two), kBytesPerContext bytes
  // each. Starts with little memory and grows.
  explicit ContinuationCounts(size_t max_contexts);

  // Counts that `next` followed `context`. REQUIRES: the context is not empty.
  void Add(absl::Span<const TokenId> context, TokenId next);

  // The continuations of `context`, in unspecified order; an unknown context has a total of 0.
  // Valid until the next Add.
  [[nodiscard]] Continuations After(absl::Span<const TokenId> context) const;

  // All slots, as stored in a file. S is capacity(). A slot with total 0 is free.
  struct Columns {
    std::vector<uint32_t> hashes;  // [S] Hashes of the contexts.
    std::vector<float> totals;     // [S] Numbers of tokens that followed the contexts.
    std::vector<uint16_t> sizes;   // [S] Numbers of continuations.
    std::vector<TokenId> tokens;   // [S, kWidth]
    std::vector<uint16_t> counts;  // [S, kWidth]
  };
  [[nodiscard]] Columns ToColumns() const;
  // INVALID_ARGUMENT if the columns are inconsistent, exceed `max_contexts`, or hold tokens outside
  // [0, vocabulary).
  [[nodiscard]] static absl::StatusOr<ContinuationCounts> FromColumns(const Columns& columns,
                                                                      size_t max_contexts,
                                                                      int vocabulary);

  // The number of calls to Add on this object. Callers compare it to detect changes.
  [[nodiscard]] int64_t added() const { return added_; }

  // The number of contexts that fit into the memory allocated so far; at most the bound.
  [[nodiscard]] size_t capacity() const { return slots_.size(); }

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
  // The slot of a context, created if needed. May evict another context.
  [[nodiscard]] Slot& FindOrClaim(uint32_t hash);
  // Doubles the capacity.
  void Grow();

  size_t max_contexts_;
  std::vector<Slot> slots_;
  size_t used_ = 0;
  int64_t added_ = 0;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_PRIOR_CONTINUATION_COUNTS_H_
