// Finds the best tokens of a row, by value and id, without sorting the row. truncation.cu and
// top_k.cu use it in blocks of kSelectThreads threads. choose.cu uses only Entry, its functions and
// LoadFour. Like simt.h, this file may be included only in kernel sources.
#ifndef BASTION_KERNELS_CUDA_CHOOSE_SELECT_H_
#define BASTION_KERNELS_CUDA_CHOOSE_SELECT_H_

#include <cstdint>

#include "kernels/cuda/simt/simt.h"

namespace bastion::kernels::cuda {

// A token and its value as one number. The larger Entry has the larger value or, if the values are
// equal, the lower id. −0 equals 0.
using Entry = uint64_t;
inline constexpr Entry kNoEntry = 0;          // Below every other Entry.
inline constexpr Entry kNanEntry = ~Entry{};  // A NaN. Above every other Entry.

SIMT_DEVICE Entry EntryOf(float value, int32_t token) {
  uint32_t bits = simt::AsBits(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return kNanEntry;
  if (bits == 0x80000000u) bits = 0;
  const uint32_t key = bits ^ ((bits >> 31) != 0 ? 0xFFFFFFFFu : 0x80000000u);
  return static_cast<Entry>(key) << 32 | ~static_cast<uint32_t>(token);
}
SIMT_DEVICE float ValueOf(Entry entry) {
  const auto key = static_cast<uint32_t>(entry >> 32);
  return simt::AsFloat(key ^ ((key >> 31) != 0 ? 0x80000000u : 0xFFFFFFFFu));
}
SIMT_DEVICE int32_t TokenOf(Entry entry) {
  return static_cast<int32_t>(~static_cast<uint32_t>(entry));
}

SIMT_DEVICE Entry Better(Entry a, Entry b) { return a > b ? a : b; }
SIMT_DEVICE Entry BestOfWarp(Entry best) {
  SIMT_UNROLL
  for (int step = kWarp / 2; step > 0; step /= 2) {
    best = Better(best, simt::ShuffleXor(best, step));
  }
  return best;
}

// The values of tokens x … x + 3 of a row of `count` values, −inf past its end. REQUIRES: x % 4 ==
// 0.
struct FourValues {
  float value[4];
};
SIMT_DEVICE FourValues LoadFour(const float* row, int x, int count) {
  FourValues four;
  if (x + 4 <= count && reinterpret_cast<uintptr_t>(row) % 16 == 0) {
    const simt::Bytes16 bytes = simt::LoadBytes16(row + x);
    SIMT_UNROLL
    for (int i = 0; i < 4; ++i) four.value[i] = simt::AsFloat(bytes.word[i]);
    return four;
  }
  SIMT_UNROLL
  for (int i = 0; i < 4; ++i) four.value[i] = x + i < count ? row[x + i] : -simt::Infinity();
  return four;
}

inline constexpr int kSelectThreads = 1024;
inline constexpr int kShortlist = 4096;  // The maximum number of entries that a block gathers.
inline constexpr int kStrips = 2 * kSelectThreads;
inline constexpr int kMaxSelected = 1024;  // The maximum k of FloorOf.
inline constexpr int kBins = 2048;

// The shared memory of a block that selects.
struct SelectMemory {
  Entry list[kShortlist];
  // The lower and upper halves of the bins' weights. They are separate because 32-bit atomics are
  // faster.
  uint32_t low[kBins];
  uint32_t high[kBins];
  uint64_t partial[kSelectThreads / kWarp];
  uint64_t above;
  int32_t bin;
  int32_t gathered;
};

// Combines the values of all threads of the block and returns the result to all of them. REQUIRES:
// `combine` is associative and commutative.
template <typename Combine>
SIMT_DEVICE uint64_t ReduceBlock(uint64_t value, SelectMemory& memory, Combine combine) {
  SIMT_UNROLL
  for (int step = kWarp / 2; step > 0; step /= 2) {
    value = combine(value, simt::ShuffleXor(value, step));
  }
  if (simt::Lane() == 0) memory.partial[simt::Warp()] = value;
  simt::SyncBlock();
  value = memory.partial[0];
  for (int warp = 1; warp < simt::BlockWarps(); ++warp) {
    value = combine(value, memory.partial[warp]);
  }
  simt::SyncBlock();
  return value;
}
SIMT_DEVICE Entry BestOfBlock(Entry best, SelectMemory& memory) {
  return ReduceBlock(best, memory, [](Entry a, Entry b) { return Better(a, b); });
}
SIMT_DEVICE uint64_t SumOfBlock(uint64_t value, SelectMemory& memory) {
  return ReduceBlock(value, memory, [](uint64_t a, uint64_t b) { return a + b; });
}

// The tokens to select from: a row of `count` values, or a list of `count` entries.
struct Tokens {
  const float* row = nullptr;
  const Entry* list = nullptr;
  int count = 0;

  // Calls visit(entry, strip) for this thread's share, in a fixed order. A row is divided into
  // kStrips strips of about the same length; each belongs to one thread.
  template <typename Visit>
  SIMT_DEVICE void ForEach(Visit visit) const {
    const int thread = simt::ThreadIndex(), threads = simt::BlockThreads();
    if (list != nullptr) {
      for (int i = thread; i < count; i += threads) visit(list[i], i % kStrips);
      return;
    }
    for (int first = 4 * thread; first < count; first += 8 * threads) {
      // Issue two loads at a time.
      const int second = first + 4 * threads;
      const FourValues four[2] = {LoadFour(row, first, count), LoadFour(row, second, count)};
      SIMT_UNROLL
      for (int i = 0; i < 8; ++i) {
        const int token = (i < 4 ? first : second) + i % 4;
        if (token < count) visit(EntryOf(four[i / 4].value[i % 4], token), 2 * thread + i % 4 / 2);
      }
    }
  }
};

// Adds `weight` to a bin of `memory`. The result does not depend on the order of the additions.
SIMT_DEVICE void AddWeight(SelectMemory& memory, int bin, uint32_t weight) {
  simt::AtomicAdd(&memory.low[bin], weight);
}
SIMT_DEVICE void AddWeight(SelectMemory& memory, int bin, uint64_t weight) {
  if (weight == 0) return;
  const auto low = static_cast<uint32_t>(weight);
  const uint32_t before = simt::AtomicAdd(&memory.low[bin], low);
  const uint32_t high = static_cast<uint32_t>(weight >> 32) + (before + low < before ? 1u : 0u);
  if (high != 0) simt::AtomicAdd(&memory.high[bin], high);
}

// Adds up the weights from the last bin down and finds the bin in which the sum reaches `target`.
// Stores this bin in memory.bin, and the total weight of the higher bins in memory.above. If the
// sum never reaches `target`, changes neither.
SIMT_DEVICE void FindBin(SelectMemory& memory, uint64_t target) {
  const int last = kBins - 1 - 2 * simt::ThreadIndex();  // This thread has bins last and last − 1.
  const uint64_t first_weight = static_cast<uint64_t>(memory.high[last]) << 32 | memory.low[last];
  const uint64_t both =
      first_weight + (static_cast<uint64_t>(memory.high[last - 1]) << 32 | memory.low[last - 1]);
  uint64_t through = both;  // The sum over the lanes of this warp up to this one.
  SIMT_UNROLL
  for (int step = 1; step < kWarp; step *= 2) {
    const uint64_t before = simt::Shuffle(through, simt::Lane() - step);
    if (simt::Lane() >= step) through += before;
  }
  if (simt::Lane() == kWarp - 1) memory.partial[simt::Warp()] = through;
  simt::SyncBlock();
  uint64_t above = through - both;
  for (int warp = 0; warp < simt::Warp(); ++warp) above += memory.partial[warp];
  if (above < target && target <= above + both) {
    const bool in_first = target <= above + first_weight;
    memory.bin = in_first ? last : last - 1;
    memory.above = in_first ? above : above + first_weight;
  }
  simt::SyncBlock();
}

// What Select finds: the entry at which the sum of weights, from the best entry down, reaches
// `target`. If `exact` is false, Select determines only the value of this entry, and its result is
// lower than all entries with that value. REQUIRES: target > 0, and the sum of all weights reaches
// it.
struct SelectGoal {
  uint64_t target = 0;
  bool exact = false;
};

// Radix selection, eleven bits at a time, for ids below 2²². weigh(entry) returns a uint32_t if the
// sum of all weights fits in one, else a uint64_t.
template <typename Weigh>
SIMT_DEVICE Entry Select(const Tokens& tokens, const SelectGoal& goal, Weigh weigh,
                         SelectMemory& memory) {
  constexpr Entry kUpperIdBits = 0xFFC00000u;  // Set in every Entry: it holds the id's complement.
  Entry found = 0, decided = 0;
  uint64_t target = goal.target;
  for (int pass = 0; pass < (goal.exact ? 5 : 3); ++pass) {
    // The digits begin at bits 53, 42, 32 (only ten bits), 11 and 0.
    const int shift = pass < 2 ? 53 - 11 * pass : pass == 2 ? 32 : 11 * (4 - pass);
    const Entry digit = pass == 2 ? kBins / 2 - 1 : kBins - 1;
    for (int bin = simt::ThreadIndex(); bin < kBins; bin += simt::BlockThreads()) {
      memory.low[bin] = memory.high[bin] = 0;
    }
    simt::SyncBlock();
    tokens.ForEach([&](Entry entry, int) {
      if ((entry & decided) != found) return;
      AddWeight(memory, static_cast<int>(entry >> shift & digit), weigh(entry));
    });
    simt::SyncBlock();
    FindBin(memory, target);
    found |= static_cast<Entry>(memory.bin) << shift;
    decided |= digit << shift;
    target -= memory.above;
    if (pass == 2 && goal.exact) {
      found |= kUpperIdBits;
      decided |= kUpperIdBits;
    }
  }
  return found;
}
// The value of the k-th best of `tokens`, as an Entry that is lower than all entries with that
// value.
SIMT_DEVICE Entry ValueOfRank(const Tokens& tokens, int k, SelectMemory& memory) {
  return Select(
      tokens, {static_cast<uint64_t>(k), false}, [](Entry) { return uint32_t{1}; }, memory);
}

// Returns the best entry of `row` to all threads. Stores the best entry of each strip in
// memory.list [kStrips].
SIMT_DEVICE Entry FindStrips(const Tokens& row, SelectMemory& memory) {
  Entry first = kNoEntry, second = kNoEntry;
  row.ForEach([&](Entry entry, int strip) {
    if (strip % 2 == 0) {
      first = Better(first, entry);
    } else {
      second = Better(second, entry);
    }
  });
  memory.list[2 * simt::ThreadIndex()] = first;
  memory.list[2 * simt::ThreadIndex() + 1] = second;
  return BestOfBlock(Better(first, second), memory);
}

// Returns a floor that at least k entries of the row reach: the k-th best of the strips' best
// entries. If the best tokens are spread over the strips, only slightly more than k entries reach
// it. REQUIRES: FindStrips was the last function that used `memory`; k <= kMaxSelected.
SIMT_DEVICE Entry FloorOf(int k, SelectMemory& memory) {
  return ValueOfRank({nullptr, memory.list, kStrips}, k, memory);
}

// Stores the entries >= `floor` of `row` in memory.list, in any order, and calls visit(entry) for
// every entry of the row. Returns the number of entries >= `floor`. The list holds only the first
// kShortlist of them.
template <typename Visit>
SIMT_DEVICE int Gather(const Tokens& row, Entry floor, SelectMemory& memory, Visit visit) {
  if (simt::ThreadIndex() == 0) memory.gathered = 0;
  simt::SyncBlock();
  row.ForEach([&](Entry entry, int) {
    visit(entry);
    if (entry < floor) return;
    const int at = simt::AtomicAdd(&memory.gathered, 1);
    if (at < kShortlist) memory.list[at] = entry;
  });
  simt::SyncBlock();
  const int count = memory.gathered;
  simt::SyncBlock();
  return count;
}

}  // namespace bastion::kernels::cuda

#endif  // BASTION_KERNELS_CUDA_CHOOSE_SELECT_H_
