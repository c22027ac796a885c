// What becomes of attention.cu's sums: the warps of a block bring theirs together, the block gives
// the tile's output or a chunk's partial results, and the block that finishes a tile's last chunk
// merges all of them, in their order.
#ifndef BASTION_KERNELS_CUDA_ATTENTION_ATTENTION_MERGE_H_
#define BASTION_KERNELS_CUDA_ATTENTION_ATTENTION_MERGE_H_

#include "kernels/cuda/attention/attention_plan.h"
#include "kernels/cuda/attention/attention_tile.h"

namespace bastion::kernels::cuda::attention {

// The last block's merge is all latency: chunks whose results a thread has under way at once, for
// as many places of the output side by side.
inline constexpr int kTogether = 8;
inline constexpr int kSideBySide = 2;

// What the block's warps have summed up, in the ring's memory: 16 rows of each of the four.
template <int D>
struct Summed {
  static constexpr int kStride = D + 8;  // So that rows begin in other banks.
  static constexpr int kRows = kThreads / kWarp * kWarpRows;
  static_assert((kStride + 2) * kRows * sizeof(float) <= Ring<D>::kBytes);

  float* outputs;  // [64, D]
  float* peaks;    // [64]
  float* weights;  // [64]

  SIMT_DEVICE explicit Summed(char* ring)
      : outputs(reinterpret_cast<float*>(ring)),
        peaks(outputs + kStride * kRows),
        weights(peaks + kRows) {}

  SIMT_DEVICE void Put(const Sums<D>& sums) const {
    SIMT_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int row = Warp() * kWarpRows + Lane() / 4 + 8 * half;
      float weight = sums.weight[half];
      weight += ShuffleXor(weight, 1);
      weight += ShuffleXor(weight, 2);
      if (Lane() % 4 == 0) {
        peaks[row] = sums.peak[half];
        weights[row] = weight;
      }
      float* to = outputs + row * kStride + 2 * (Lane() % 4);
      SIMT_UNROLL
      for (int n = 0; n < D / 8; ++n) {
        to[8 * n] = sums.output[n][2 * half];
        to[8 * n + 1] = sums.output[n][2 * half + 1];
      }
    }
  }
};

// Four neighbouring columns of one row's result: weighted values, not divided by their weights yet.
struct Quarter {
  float values[4] = {0, 0, 0, 0};
  float peak = 0;
  float weight = 0;

  SIMT_DEVICE void Add(const float* more, float factor) {
    SIMT_UNROLL
    for (int i = 0; i < 4; ++i) values[i] += more[i] * factor;
  }
};

// From the warps that shared the keys of row `row`, in the keys' order.
template <int D, int kSplit>
SIMT_DEVICE Quarter FromWarps(const Summed<D>& summed, int row, int column) {
  const int first = row / kWarpRows * kSplit * kWarpRows + row % kWarpRows;
  Quarter result;
  result.peak = summed.peaks[first];
  SIMT_UNROLL
  for (int part = 1; part < kSplit; ++part) {
    result.peak = Max(result.peak, summed.peaks[first + part * kWarpRows]);
  }
  const float base = result.peak == -Infinity() ? 0.0f : result.peak;
  SIMT_UNROLL
  for (int part = 0; part < kSplit; ++part) {
    const int from = first + part * kWarpRows;
    const float factor = Exp2(summed.peaks[from] - base);
    result.weight += summed.weights[from] * factor;
    result.Add(summed.outputs + from * Summed<D>::kStride + column, factor);
  }
  return result;
}

// Rounds four neighbouring columns of the tile's row `row` into the output.
SIMT_DEVICE void StoreOutput(const AttentionArgs& args, const Item& item, int row, int column,
                             const Quarter& result) {
  const int64_t at =
      static_cast<int64_t>(item.span.first_row + item.RowOf(row)) * args.query_heads +
      item.HeadOf(row);
  auto* to = reinterpret_cast<uint32_t*>(static_cast<uint16_t*>(args.output) +
                                         at * args.cache.head_dim + column);
  const float inverse = result.weight > 0 ? 1.0f / result.weight : 0.0f;
  to[0] = PackBf16(result.values[0] * inverse, result.values[1] * inverse);
  to[1] = PackBf16(result.values[2] * inverse, result.values[3] * inverse);
}

// The block's results of an item: the output where its tile has one chunk, else partial ones.
template <int D, int kSplit>
SIMT_DEVICE void GiveResults(const AttentionArgs& args, const Item& item, const Summed<D>& summed) {
  const int quarters = args.cache.head_dim / 4;
  float* partial = PartialAt(args, item, item.chunk);
  SIMT_ROLL
  for (int i = ThreadIndex(); i < item.rows * quarters; i += kThreads) {
    const int row = i / quarters, column = i % quarters * 4;
    const Quarter result = FromWarps<D, kSplit>(summed, row, column);
    if (item.chunks == 1) {
      StoreOutput(args, item, row, column, result);
      continue;
    }
    if (column == 0) {
      partial[kRowExtra * row] = result.peak;
      partial[kRowExtra * row + 1] = result.weight;
    }
    if (result.weight == 0) continue;  // Nobody reads them.
    Bytes16 bits;
    SIMT_UNROLL
    for (int k = 0; k < 4; ++k) bits.word[k] = AsBits(result.values[k]);
    *reinterpret_cast<Bytes16*>(partial + kRowExtra * item.rows + 4 * i) = bits;
  }
}

// Whether this block is the last to have given the results of one of the tile's chunks; those of
// the others are then seen by all of its threads. `flag` is the block's.
SIMT_DEVICE bool LastToArrive(const AttentionArgs& args, const Item& item, int32_t* flag) {
  FenceDevice();
  SyncBlock();
  if (ThreadIndex() == 0) {
    int32_t* counter = static_cast<int32_t*>(args.scratch) + item.counter;
    const bool last = AtomicAdd(counter, 1) == item.chunks - 1;
    if (last) *counter = 0;
    *flag = last ? 1 : 0;
  }
  SyncBlock();
  FenceDevice();
  return *flag != 0;
}

// How much each chunk's results count in each row's: weights [chunks, rows] in shared memory.
SIMT_DEVICE void WeighChunks(const AttentionArgs& args, const Item& item, float* weights) {
  const int row = ThreadIndex();
  if (row >= item.rows) return;
  const float* first = PartialAt(args, item, 0) + kRowExtra * row;
  const int64_t stride = PartialAt(args, item, 1) - PartialAt(args, item, 0);
  float peak = -Infinity(), sum = 0;
  SIMT_ROLL
  for (int begin = 0; begin < item.chunks; begin += kTogether) {
    float peaks[kTogether], sums[kTogether];
    SIMT_UNROLL
    for (int k = 0; k < kTogether; ++k) {
      const bool there = begin + k < item.chunks;
      peaks[k] = there ? first[(begin + k) * stride] : -Infinity();
      sums[k] = there ? first[(begin + k) * stride + 1] : 0.0f;
    }
    SIMT_UNROLL
    for (int k = 0; k < kTogether; ++k) {
      const float higher = Max(peak, peaks[k]), base = higher == -Infinity() ? 0.0f : higher;
      sum = sum * Exp2(peak - base) + sums[k] * Exp2(peaks[k] - base);
      peak = higher;
      if (begin + k < item.chunks) weights[(begin + k) * item.rows + row] = peaks[k];
    }
  }
  const float base = peak == -Infinity() ? 0.0f : peak, inverse = sum > 0 ? 1.0f / sum : 0.0f;
  for (int chunk = 0; chunk < item.chunks; ++chunk) {
    float& weight = weights[chunk * item.rows + row];
    weight = Exp2(weight - base) * inverse;
  }
}

// What a thread merges in one go: chunks from `begin` on, at quarters i, i + kThreads, … of the
// tile's rows.
struct Portion {
  const float* weights = nullptr;  // WeighChunks
  int begin = 0;
  int i = 0;
};

SIMT_DEVICE void AddChunks(const AttentionArgs& args, const Item& item, const Portion& portion,
                           Quarter (&results)[kSideBySide]) {
  const int quarters = args.cache.head_dim / 4, begin = portion.begin, i = portion.i;
  const float* first = PartialAt(args, item, begin) + kRowExtra * item.rows;
  const int64_t stride = PartialAt(args, item, 1) - PartialAt(args, item, 0);
  Bytes16 parts[kSideBySide][kTogether];
  float factors[kSideBySide][kTogether];
  SIMT_UNROLL
  for (int side = 0; side < kSideBySide; ++side) {
    const int row = (i + side * kThreads) / quarters;
    SIMT_UNROLL
    for (int k = 0; k < kTogether; ++k) {
      const bool there = begin + k < item.chunks && row < item.rows;
      factors[side][k] = there ? portion.weights[(begin + k) * item.rows + row] : 0.0f;
      const float* from = first + k * stride + 4 * (i + side * kThreads);
      parts[side][k] = factors[side][k] > 0 ? *reinterpret_cast<const Bytes16*>(from) : Bytes16{};
    }
  }
  SIMT_UNROLL
  for (int side = 0; side < kSideBySide; ++side) {
    SIMT_UNROLL
    for (int k = 0; k < kTogether; ++k) {
      SIMT_UNROLL
      for (int c = 0; c < 4; ++c) {
        results[side].values[c] += AsFloat(parts[side][k].word[c]) * factors[side][k];
      }
    }
  }
}

// The tile's output from all its chunks, in their order.
SIMT_DEVICE void MergeChunks(const AttentionArgs& args, const Item& item, float* weights) {
  WeighChunks(args, item, weights);
  SyncBlock();
  const int quarters = args.cache.head_dim / 4;
  SIMT_ROLL
  for (int i = ThreadIndex(); i < item.rows * quarters; i += kSideBySide * kThreads) {
    Quarter results[kSideBySide];
    SIMT_ROLL
    for (int begin = 0; begin < item.chunks; begin += kTogether) {
      AddChunks(args, item, {weights, begin, i}, results);
    }
    SIMT_UNROLL
    for (int side = 0; side < kSideBySide; ++side) {
      results[side].weight = 1.0f;
      const int at = i + side * kThreads;
      if (at < item.rows * quarters) {
        StoreOutput(args, item, at / quarters, at % quarters * 4, results[side]);
      }
    }
  }
}

}  // namespace bastion::kernels::cuda::attention

#endif  // BASTION_KERNELS_CUDA_ATTENTION_ATTENTION_MERGE_H_
