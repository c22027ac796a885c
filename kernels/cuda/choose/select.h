// Finding the best tokens of a row, by value and id, without sorting the row: what truncation and
// top-k share. For kernels, as simt.h; blocks of kSelectThreads.
#ifndef BASTION_KERNELS_CUDA_CHOOSE_SELECT_H_
#define BASTION_KERNELS_CUDA_CHOOSE_SELECT_H_

#include <cstdint>

#include "kernels/cuda/simt/simt.h"

namespace bastion::kernels::cuda {

// A token and its value as one number: the larger has the larger value or, of equal values, the
// lower id. −0 is 0.
using Entry = uint64_t;
inline constexpr Entry kNoEntry = 0;             // Below all others.
inline constexpr Entry kBrokenEntry = ~Entry{};  // A NaN: above all others.

SIMT_DEVICE Entry EntryOf(float value, int32_t token) {
  uint32_t bits = simt::AsBits(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return kBrokenEntry;
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

// Values of tokens x … x + 3 of a row of `count`, −inf from its end on. REQUIRES: x % 4 == 0.
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
inline constexpr int kShortlist = 4096;  // Entries that a block may gather.
inline constexpr int kStrips = 2 * kSelectThreads;
inline constexpr int kMostSelected = 1024;  // Best tokens that a shortlist is made for.
inline constexpr int kBins = 2048;

// Shared memory of a block that selects.
struct SelectMemory {
  Entry list[kShortlist];
  uint32_t low[kBins];  // Lower and upper halves of the bins' weights: 32-bit atomics are fast.
  uint32_t high[kBins];
  uint64_t partial[kSelectThreads / kWarp];
  uint64_t above;
  int32_t bin;
  int32_t gathered;
};

// Of `value` of all threads; `combine` is associative and commutative.
template <typename Combine>
SIMT_DEVICE uint64_t OverBlock(uint64_t value, SelectMemory& memory, Combine combine) {
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
  return OverBlock(best, memory, [](Entry a, Entry b) { return Better(a, b); });
}
SIMT_DEVICE uint64_t SumOfBlock(uint64_t value, SelectMemory& memory) {
  return OverBlock(value, memory, [](uint64_t a, uint64_t b) { return a + b; });
}

// Tokens to select from: a row of `count` values, or a list of as many entries.
struct Tokens {
  const float* row = nullptr;
  const Entry* list = nullptr;
  int count = 0;

  // visit(entry, strip) for this thread's share, in a fixed order. Every entry of a row lies in one
  // of kStrips strips of about the same length.
  template <typename Visit>
  SIMT_DEVICE void ForEach(Visit visit) const {
    const int thread = simt::ThreadIndex(), threads = simt::BlockThreads();
    if (list != nullptr) {
      for (int i = thread; i < count; i += threads) visit(list[i], i % kStrips);
      return;
    }
    for (int first = 4 * thread; first < count; first += 8 * threads) {
      // Two loads are under way at a time.
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

// Adds to a bin of `memory`, in any order with the same result.
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

// Finds the bin in which the weights, added up from the last bin down, reach `target`; memory.bin
// and memory.above, the weight of the bins after it. If they never do, leaves those as they are.
SIMT_DEVICE void FindBin(SelectMemory& memory, uint64_t target) {
  const int last = kBins - 1 - 2 * simt::ThreadIndex();  // This thread's are `last` and last − 1.
  const uint64_t first_weight = static_cast<uint64_t>(memory.high[last]) << 32 | memory.low[last];
  const uint64_t both =
      first_weight + (static_cast<uint64_t>(memory.high[last - 1]) << 32 | memory.low[last - 1]);
  uint64_t through = both;  // Of this warp's threads up to this one.
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

// What is looked for: the entry at which the weights of all, from the best down, reach `target`;
// or, when ids do not matter, its value with an id that is below all. REQUIRES: they do reach it,
// and target > 0.
struct Wanted {
  uint64_t target = 0;
  bool to_the_token = false;
};

// Radix selection, eleven bits at a time, of ids below 2²². weigh(entry) gives an uint32_t when all
// weights fit one together, else an uint64_t.
template <typename Weigh>
SIMT_DEVICE Entry Select(const Tokens& tokens, const Wanted& wanted, Weigh weigh,
                         SelectMemory& memory) {
  constexpr Entry kUpperIdBits = 0xFFC00000u;  // All set: ids are kept as their complement.
  Entry found = 0, decided = 0;
  uint64_t target = wanted.target;
  for (int pass = 0; pass < (wanted.to_the_token ? 5 : 3); ++pass) {
    // Digits begin at bits 53, 42 and 32 (ten bits), then 11 and 0.
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
    if (pass == 2 && wanted.to_the_token) {
      found |= kUpperIdBits;
      decided |= kUpperIdBits;
    }
  }
  return found;
}
// The value of the k-th best of `tokens`, below all entries that have it.
SIMT_DEVICE Entry ValueOfRank(const Tokens& tokens, int k, SelectMemory& memory) {
  return Select(
      tokens, {static_cast<uint64_t>(k), false}, [](Entry) { return uint32_t{1}; }, memory);
}

// The best entry of `row`, for all threads, and in memory.list [kStrips] that of every strip.
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

// After FindStrips: an entry that at least k entries of the row are not below, hardly more of them
// if the best are spread over the strips. REQUIRES: k <= kMostSelected.
SIMT_DEVICE Entry FloorOf(int k, SelectMemory& memory) {
  return ValueOfRank({nullptr, memory.list, kStrips}, k, memory);
}

// Gathers in memory.list what of `row` is not below `floor`, in any order, and calls visit(entry)
// for all entries. Returns how many are not below: more than kShortlist do not fit.
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
