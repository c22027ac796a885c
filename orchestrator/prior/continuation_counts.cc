#include "orchestrator/prior/continuation_counts.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace bastion {
namespace {

constexpr size_t kInitialCapacity = 64;
// A context is stored in one of this many consecutive slots, starting at its hash.
constexpr size_t kNeighborhood = 8;

uint32_t HashOf(absl::Span<const TokenId> context) {
  uint64_t hash = context.size();
  for (const TokenId token : context) {
    hash = (hash ^ static_cast<uint32_t>(token)) * 0x9E3779B97F4A7C15ull;
    hash ^= hash >> 32;
  }
  return static_cast<uint32_t>(hash);
}

}  // namespace

ContinuationCounts::ContinuationCounts(size_t max_contexts)
    : max_contexts_(std::bit_ceil(std::max(max_contexts, kInitialCapacity))),
      slots_(kInitialCapacity) {}

const ContinuationCounts::Slot* ContinuationCounts::Find(uint32_t hash) const {
  for (size_t step = 0; step < kNeighborhood; ++step) {
    const Slot& slot = slots_[(hash + step) & (slots_.size() - 1)];
    if (slot.total == 0) return nullptr;  // Slots fill up in order and are never freed.
    if (slot.hash == hash) return &slot;
  }
  return nullptr;
}

ContinuationCounts::Slot& ContinuationCounts::FindOrClaim(uint32_t hash) {
  if (const Slot* found = Find(hash)) return const_cast<Slot&>(*found);
  for (;;) {
    Slot* least = nullptr;
    for (size_t step = 0; step < kNeighborhood; ++step) {
      Slot& slot = slots_[(hash + step) & (slots_.size() - 1)];
      if (least == nullptr || slot.total < least->total) least = &slot;
    }
    const bool crowded = 2 * used_ >= slots_.size() || least->total > 0;
    if (crowded && slots_.size() < max_contexts_) {
      Grow();
      continue;
    }
    if (least->total == 0) ++used_;
    *least = Slot();
    least->hash = hash;
    return *least;
  }
}

void ContinuationCounts::Grow() {
  std::vector<Slot> old(slots_.size() * 2);
  std::swap(old, slots_);
  used_ = 0;
  for (const Slot& kept : old) {
    if (kept.total == 0) continue;
    for (size_t step = 0; step < kNeighborhood; ++step) {
      Slot& slot = slots_[(kept.hash + step) & (slots_.size() - 1)];
      if (slot.total > 0) continue;
      slot = kept;
      ++used_;
      break;
    }
  }
}

void ContinuationCounts::Add(absl::Span<const TokenId> context, TokenId next) {
  CHECK(!context.empty());
  Slot& slot = FindOrClaim(HashOf(context));
  slot.total += 1;
  ++added_;
  const auto end = slot.tokens.begin() + slot.size;
  auto at = static_cast<size_t>(std::find(slot.tokens.begin(), end, next) - slot.tokens.begin());
  if (at == slot.size) {
    if (slot.size < kWidth) {
      ++slot.size;
    } else {
      // A new continuation decrements the rarest one, and replaces it when its count reaches 0.
      const auto rarest = std::min_element(slot.counts.begin(), slot.counts.end());
      if (--*rarest > 0) return;
      at = static_cast<size_t>(rarest - slot.counts.begin());
    }
    slot.tokens[at] = next;
    slot.counts[at] = 0;
  }
  if (slot.counts[at] == std::numeric_limits<uint16_t>::max()) {
    for (uint16_t& count : slot.counts) count /= 2;
    slot.total /= 2;
  }
  ++slot.counts[at];
}

Continuations ContinuationCounts::After(absl::Span<const TokenId> context) const {
  const Slot* slot = Find(HashOf(context));
  if (slot == nullptr) return {};
  return {slot->total, absl::MakeConstSpan(slot->tokens.data(), slot->size),
          absl::MakeConstSpan(slot->counts.data(), slot->size)};
}

ContinuationCounts::Columns ContinuationCounts::ToColumns() const {
  Columns columns;
  columns.hashes.reserve(capacity());
  columns.totals.reserve(capacity());
  columns.sizes.reserve(capacity());
  columns.tokens.reserve(capacity() * kWidth);
  columns.counts.reserve(capacity() * kWidth);
  for (const Slot& slot : slots_) {
    columns.hashes.push_back(slot.hash);
    columns.totals.push_back(slot.total);
    columns.sizes.push_back(slot.size);
    for (int i = 0; i < kWidth; ++i) {
      const bool counts = slot.total > 0 && i < slot.size;
      columns.tokens.push_back(counts ? slot.tokens[i] : 0);
      columns.counts.push_back(counts ? slot.counts[i] : 0);
    }
  }
  return columns;
}

absl::StatusOr<ContinuationCounts> ContinuationCounts::FromColumns(const Columns& columns,
                                                                   size_t max_contexts,
                                                                   int vocabulary) {
  ContinuationCounts counts(max_contexts);
  const size_t slots = columns.hashes.size();
  if (!std::has_single_bit(slots) || slots > counts.max_contexts_ ||
      columns.totals.size() != slots || columns.sizes.size() != slots ||
      columns.tokens.size() != slots * kWidth || columns.counts.size() != slots * kWidth) {
    return absl::InvalidArgumentError(
        absl::StrCat("continuation counts: ", slots, " contexts do not match ",
                     columns.totals.size(), " totals, ", columns.sizes.size(), " sizes, ",
                     columns.tokens.size(), " tokens, ", columns.counts.size(),
                     " counts, or are not a power of two of at most ", counts.max_contexts_));
  }
  counts.slots_.assign(slots, Slot());
  for (size_t i = 0; i < slots; ++i) {
    Slot& slot = counts.slots_[i];
    slot.hash = columns.hashes[i];
    slot.total = columns.totals[i];
    slot.size = columns.sizes[i];
    std::copy_n(&columns.tokens[i * kWidth], kWidth, slot.tokens.begin());
    std::copy_n(&columns.counts[i * kWidth], kWidth, slot.counts.begin());
    const bool known = std::all_of(slot.tokens.begin(), slot.tokens.end(),
                                   [&](TokenId token) { return token >= 0 && token < vocabulary; });
    const float counted = std::accumulate(slot.counts.begin(), slot.counts.end(), 0.0f);
    constexpr float kMaxTotal = 1e9f;
    const bool fits = slot.total == 0 ? counted == 0 : slot.total >= counted;
    if (!(slot.total >= 0 && slot.total <= kMaxTotal) || !fits || slot.size > kWidth || !known) {
      return absl::InvalidArgumentError(
          absl::StrCat("continuation counts: context ", i, " is damaged"));
    }
    counts.used_ += slot.total > 0 ? 1 : 0;
  }
  return counts;
}

}  // namespace bastion
