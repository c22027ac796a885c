// Merging chunks, in ascending order, and storing sums and outputs.
#ifndef BASTION_KERNELS_CUDA_ATTENTION_ATTENTION_MERGE_H_
#define BASTION_KERNELS_CUDA_ATTENTION_ATTENTION_MERGE_H_

#include "kernels/cuda/attention/attention_plan.h"
#include "kernels/cuda/attention/attention_tile.h"

namespace bastion::kernels::cuda::attention {

// Bytes of the merged chunks of kThreads threads (Totals).
constexpr int TotalBytes(int dim, int split) {
  return (4 * (dim / 8 / split) + 4) * kThreads * static_cast<int>(sizeof(float));
}

// The shared memory of a block: a ring of `slots`, then what Ring says.
template <int D, int slots = Ring<D>::kSlots>
struct Layout {
  static constexpr bool kManyRows = Ring<D>::kMaxRows > 2 * kWarpRows;
  // Items of 64 rows need no exchange.
  static constexpr int kExchangeAt = TotalBytes(D, kManyRows ? 2 : 4);
  static constexpr int kExchangeEnd = kExchangeAt + Exchange<2>::kBytes;
  static constexpr int kTotalBytes = TotalBytes(D, kManyRows ? 1 : 4);
  static constexpr int kTotalsAt = slots * Ring<D>::kSlotBytes + Ring<D>::kQueryBytes;
  static constexpr int kBytes =
      kTotalsAt + (kTotalBytes > kExchangeEnd ? kTotalBytes : kExchangeEnd);

  char* begin;

  [[nodiscard]] SIMT_DEVICE uint32_t ring() const { return SharedAddress(begin); }
  [[nodiscard]] SIMT_DEVICE uint32_t queries() const {
    return ring() + slots * Ring<D>::kSlotBytes;
  }
  [[nodiscard]] SIMT_DEVICE float* totals() const {
    return reinterpret_cast<float*>(begin + kTotalsAt);
  }
  [[nodiscard]] SIMT_DEVICE char* exchange() const { return begin + kTotalsAt + kExchangeAt; }
};

// How much of the merged chunks and of one more chunk goes into the new sums.
struct Shares {
  float kept;
  float added;

  // The product is never fused with the sum, so that every kernel rounds alike.
  [[nodiscard]] SIMT_DEVICE float Mix(float total, float more) const {
    return Multiply(total, kept) + Multiply(more, added);
  }
};

// The shares of the sums so far, and of a chunk whose largest score is `more`. Updates the peak.
SIMT_DEVICE Shares MergePeaks(float more, float& peak) {
  const float higher = Max(peak, more), base = higher == -Infinity() ? 0.0f : higher;
  const Shares shares = {Exp2(peak - base), Exp2(more - base)};
  peak = higher;
  return shares;
}

// The merged chunks of a warp's rows and columns, as in ChunkSums, in shared memory.
template <int D, int kSplit>
struct Totals {
  using Chunk = ChunkSums<D, kSplit>;
  static constexpr int kValues = 4 * Chunk::kColumns;

  float* values;  // Those of this thread, kThreads apart.

  // `memory` has TotalBytes for each kThreads threads. Call Clear before Add.
  SIMT_DEVICE explicit Totals(float* memory)
      : values(memory + ThreadIndex() / kThreads * (kValues + 4) * kThreads +
               ThreadIndex() % kThreads) {}
  SIMT_DEVICE void Clear() {
    SIMT_UNROLL
    for (int i = 0; i < kValues + 4; ++i) values[i * kThreads] = 0;
    peak(0) = peak(1) = -Infinity();
  }
  [[nodiscard]] SIMT_DEVICE float& At(int n, int i) const { return values[(4 * n + i) * kThreads]; }
  [[nodiscard]] SIMT_DEVICE float& peak(int half) const {
    return values[(kValues + half) * kThreads];
  }
  [[nodiscard]] SIMT_DEVICE float& weight(int half) const {
    return values[(kValues + 2 + half) * kThreads];
  }

  // Copies the totals to registers.
  SIMT_DEVICE void CopyTo(Chunk& chunk) const {
    SIMT_UNROLL
    for (int i = 0; i < kValues; ++i) chunk.output[i / 4][i % 4] = values[i * kThreads];
    SIMT_UNROLL
    for (int half = 0; half < 2; ++half) {
      chunk.peak[half] = peak(half);
      chunk.weight[2 * half] = weight(half);
    }
  }

  SIMT_DEVICE void Add(const Chunk& chunk) {
    SIMT_UNROLL
    for (int half = 0; half < 2; ++half) {
      const Shares shares = MergePeaks(chunk.peak[half], peak(half));
      weight(half) = shares.Mix(weight(half), chunk.weight[2 * half]);
      SIMT_UNROLL
      for (int n = 0; n < Chunk::kColumns; ++n) {
        KeepOrder();
        SIMT_UNROLL
        for (int i = 2 * half; i < 2 * half + 2; ++i) {
          At(n, i) = shares.Mix(At(n, i), chunk.output[n][i]);
        }
      }
    }
  }
};

// Calls visit(i, half) for the lane's rows i of the item, halves of the warp's 16 rows.
template <int kSplit, typename Visit>
SIMT_DEVICE void ForRows(const Item& item, const Visit& visit) {
  SIMT_UNROLL
  for (int half = 0; half < 2; ++half) {
    const int row = Warp() / kSplit * kWarpRows + Lane() / 4 + 8 * half;
    if (row < item.rows) visit(row, half);
  }
}
// Calls visit(n, column) for the lane's pairs of columns: column and column + 1.
template <int D, int kSplit, typename Visit>
SIMT_DEVICE void ForColumns(const AttentionArgs& args, const Visit& visit) {
  constexpr int kColumns = ChunkSums<D, kSplit>::kColumns;
  SIMT_UNROLL
  for (int n = 0; n < kColumns; ++n) {
    KeepOrder();
    const int column = 8 * (Warp() % kSplit * kColumns + n) + 2 * (Lane() % 4);
    if (column < args.cache.head_dim) visit(n, column);
  }
}

// Stores sums as the partial result `chunk` (PartialAt).
template <int D, int kSplit>
SIMT_DEVICE void StorePartial(const AttentionArgs& args, const Item& item, int chunk,
                              const ChunkSums<D, kSplit>& sums) {
  ForRows<kSplit>(item, [&](int row, int half) {
    const Partial partial = PartialAt(args, item, chunk, row);
    if (Warp() % kSplit == 0 && Lane() % 4 == 0) {
      partial.weight[0] = sums.peak[half];
      partial.weight[1] = sums.weight[2 * half];
    }
    ForColumns<D, kSplit>(args, [&](int n, int column) {
      partial.sums[column] = sums.output[n][2 * half];
      partial.sums[column + 1] = sums.output[n][2 * half + 1];
    });
  });
}

// Divides the merged sums by their weights, rounds them and stores them in the output.
template <int D, int kSplit>
SIMT_DEVICE void StoreOutput(const AttentionArgs& args, const Item& item,
                             const Totals<D, kSplit>& totals) {
  ForRows<kSplit>(item, [&](int row, int half) {
    const int64_t at =
        static_cast<int64_t>(item.span.first_row + item.RowOf(row)) * args.query_heads +
        item.HeadOf(row);
    auto* const to = static_cast<uint16_t*>(args.output) + at * args.cache.head_dim;
    const float inverse = totals.weight(half) > 0 ? 1.0f / totals.weight(half) : 0.0f;
    ForColumns<D, kSplit>(args, [&](int n, int column) {
      *reinterpret_cast<uint32_t*>(to + column) =
          PackBf16(totals.At(n, 2 * half) * inverse, totals.At(n, 2 * half + 1) * inverse);
    });
  });
}

// Stores what an item has summed up: the chunks that are merged, and the last one.
template <int D, int kSplit>
SIMT_DEVICE void StoreItem(const AttentionArgs& args, const Item& item, Totals<D, kSplit>& totals,
                           ChunkSums<D, kSplit>& sums) {
  switch (item.division) {
    case Division::kChunks:
      StorePartial<D, kSplit>(args, item, item.chunk, sums);
      break;
    case Division::kFolded:
      if (IsChunkBegin(item.end)) {
        totals.Add(sums);
      } else {
        StorePartial<D, kSplit>(args, item, 1, sums);
      }
      totals.CopyTo(sums);
      StorePartial<D, kSplit>(args, item, 0, sums);
      break;
    case Division::kDirect:
      totals.Add(sums);
      StoreOutput<D, kSplit>(args, item, totals);
      break;
  }
}

}  // namespace bastion::kernels::cuda::attention

#endif  // BASTION_KERNELS_CUDA_ATTENTION_ATTENTION_MERGE_H_
