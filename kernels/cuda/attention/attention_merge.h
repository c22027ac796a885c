// Merges the partial sums of attention.cu. First, the warps of a block combine their sums. A block
// then stores the output of its tile, or the partial results of its chunk. The block that finishes
// the last chunk of a tile merges all of them, in the order of the chunks.
#ifndef BASTION_KERNELS_CUDA_ATTENTION_ATTENTION_MERGE_H_
#define BASTION_KERNELS_CUDA_ATTENTION_ATTENTION_MERGE_H_

#include "kernels/cuda/attention/attention_plan.h"
#include "kernels/cuda/attention/attention_tile.h"

namespace bastion::kernels::cuda::attention {

// Memory latency limits the speed of the merge. To hide it, a thread issues the loads of
// kChunksPerStep chunks at a time, for kQuadsPerThread quads of the output.
inline constexpr int kChunksPerStep = 8;
inline constexpr int kQuadsPerThread = 2;

// The sums of the block's four warps, 16 rows each. They reuse the memory of the ring
// (attention_tile.h).
template <int D>
struct BlockSums {
  static constexpr int kStride = D + 8;  // Successive rows begin in different banks.
  static constexpr int kRows = kThreads / kWarp * kWarpRows;
  static_assert((kStride + 2) * kRows * sizeof(float) <= Ring<D>::kBytes);

  float* outputs;  // [64, D]
  float* peaks;    // [64]
  float* weights;  // [64]

  SIMT_DEVICE explicit BlockSums(char* ring)
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

// Four adjacent columns of one row: the sums of weighted values, not yet divided by the sum of
// weights.
struct Quad {
  float values[4] = {0, 0, 0, 0};
  float peak = 0;
  float weight = 0;

  SIMT_DEVICE void Add(const float* more, float factor) {
    SIMT_UNROLL
    for (int i = 0; i < 4; ++i) values[i] += more[i] * factor;
  }
};

// Combines the sums of the warps that shared the keys of row `row`, in the order of the keys.
template <int D, int kSplit>
SIMT_DEVICE Quad FromWarps(const BlockSums<D>& block_sums, int row, int column) {
  const int first = row / kWarpRows * kSplit * kWarpRows + row % kWarpRows;
  Quad result;
  result.peak = block_sums.peaks[first];
  SIMT_UNROLL
  for (int part = 1; part < kSplit; ++part) {
    result.peak = Max(result.peak, block_sums.peaks[first + part * kWarpRows]);
  }
  const float base = result.peak == -Infinity() ? 0.0f : result.peak;
  SIMT_UNROLL
  for (int part = 0; part < kSplit; ++part) {
    const int from = first + part * kWarpRows;
    const float factor = Exp2(block_sums.peaks[from] - base);
    result.weight += block_sums.weights[from] * factor;
    result.Add(block_sums.outputs + from * BlockSums<D>::kStride + column, factor);
  }
  return result;
}

// Divides four adjacent columns of the tile's row `row` by the weight, rounds them and stores them
// in the output.
SIMT_DEVICE void StoreOutput(const AttentionArgs& args, const Item& item, int row, int column,
                             const Quad& result) {
  const int64_t at =
      static_cast<int64_t>(item.span.first_row + item.RowOf(row)) * args.query_heads +
      item.HeadOf(row);
  auto* to = reinterpret_cast<uint32_t*>(static_cast<uint16_t*>(args.output) +
                                         at * args.cache.head_dim + column);
  const float inverse = result.weight > 0 ? 1.0f / result.weight : 0.0f;
  to[0] = PackBf16(result.values[0] * inverse, result.values[1] * inverse);
  to[1] = PackBf16(result.values[2] * inverse, result.values[3] * inverse);
}

// Stores the block's results for an item: the output if its tile has one chunk, otherwise the
// partial results of the chunk.
template <int D, int kSplit>
SIMT_DEVICE void StoreResults(const AttentionArgs& args, const Item& item,
                              const BlockSums<D>& block_sums) {
  const int quads = args.cache.head_dim / 4;
  float* partial = PartialAt(args, item, item.chunk);
  SIMT_ROLL
  for (int i = ThreadIndex(); i < item.rows * quads; i += kThreads) {
    const int row = i / quads, column = i % quads * 4;
    const Quad result = FromWarps<D, kSplit>(block_sums, row, column);
    if (item.chunks == 1) {
      StoreOutput(args, item, row, column, result);
      continue;
    }
    if (column == 0) {
      partial[kRowExtra * row] = result.peak;
      partial[kRowExtra * row + 1] = result.weight;
    }
    if (result.weight == 0) continue;  // AddChunks does not read the values.
    Bytes16 bits;
    SIMT_UNROLL
    for (int k = 0; k < 4; ++k) bits.word[k] = AsBits(result.values[k]);
    *reinterpret_cast<Bytes16*>(partial + kRowExtra * item.rows + 4 * i) = bits;
  }
}

// Whether all other chunks of the tile have already been stored. If so, all threads of this block
// can read the results of the other blocks. `flag` is in the block's shared memory.
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

// Computes the weight of each chunk in the output of each row: weights [chunks, rows] in shared
// memory.
SIMT_DEVICE void WeighChunks(const AttentionArgs& args, const Item& item, float* weights) {
  const int row = ThreadIndex();
  if (row >= item.rows) return;
  const float* first = PartialAt(args, item, 0) + kRowExtra * row;
  const int64_t stride = PartialAt(args, item, 1) - PartialAt(args, item, 0);
  float peak = -Infinity(), sum = 0;
  SIMT_ROLL
  for (int begin = 0; begin < item.chunks; begin += kChunksPerStep) {
    float peaks[kChunksPerStep], sums[kChunksPerStep];
    SIMT_UNROLL
    for (int k = 0; k < kChunksPerStep; ++k) {
      const bool valid = begin + k < item.chunks;
      peaks[k] = valid ? first[(begin + k) * stride] : -Infinity();
      sums[k] = valid ? first[(begin + k) * stride + 1] : 0.0f;
    }
    SIMT_UNROLL
    for (int k = 0; k < kChunksPerStep; ++k) {
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

// The work of a thread in one step of the merge: kChunksPerStep chunks, starting at `begin`, for
// the kQuadsPerThread quads i, i + kThreads, … of the tile's rows.
struct Portion {
  const float* weights = nullptr;  // From WeighChunks
  int begin = 0;
  int i = 0;
};

SIMT_DEVICE void AddChunks(const AttentionArgs& args, const Item& item, const Portion& portion,
                           Quad (&results)[kQuadsPerThread]) {
  const int quads = args.cache.head_dim / 4, begin = portion.begin, i = portion.i;
  const float* first = PartialAt(args, item, begin) + kRowExtra * item.rows;
  const int64_t stride = PartialAt(args, item, 1) - PartialAt(args, item, 0);
  Bytes16 parts[kQuadsPerThread][kChunksPerStep];
  float factors[kQuadsPerThread][kChunksPerStep];
  SIMT_UNROLL
  for (int side = 0; side < kQuadsPerThread; ++side) {
    const int row = (i + side * kThreads) / quads;
    SIMT_UNROLL
    for (int k = 0; k < kChunksPerStep; ++k) {
      const bool valid = begin + k < item.chunks && row < item.rows;
      factors[side][k] = valid ? portion.weights[(begin + k) * item.rows + row] : 0.0f;
      const float* from = first + k * stride + 4 * (i + side * kThreads);
      parts[side][k] = factors[side][k] > 0 ? *reinterpret_cast<const Bytes16*>(from) : Bytes16{};
    }
  }
  SIMT_UNROLL
  for (int side = 0; side < kQuadsPerThread; ++side) {
    SIMT_UNROLL
    for (int k = 0; k < kChunksPerStep; ++k) {
      SIMT_UNROLL
      for (int c = 0; c < 4; ++c) {
        results[side].values[c] += AsFloat(parts[side][k].word[c]) * factors[side][k];
      }
    }
  }
}

// Computes the tile's output from all of its chunks, in order.
SIMT_DEVICE void MergeChunks(const AttentionArgs& args, const Item& item, float* weights) {
  WeighChunks(args, item, weights);
  SyncBlock();
  const int quads = args.cache.head_dim / 4;
  SIMT_ROLL
  for (int i = ThreadIndex(); i < item.rows * quads; i += kQuadsPerThread * kThreads) {
    Quad results[kQuadsPerThread];
    SIMT_ROLL
    for (int begin = 0; begin < item.chunks; begin += kChunksPerStep) {
      AddChunks(args, item, {weights, begin, i}, results);
    }
    SIMT_UNROLL
    for (int side = 0; side < kQuadsPerThread; ++side) {
      results[side].weight = 1.0f;
      const int at = i + side * kThreads;
      if (at < item.rows * quads) {
        StoreOutput(args, item, at / quads, at % quads * 4, results[side]);
      }
    }
  }
}

}  // namespace bastion::kernels::cuda::attention

#endif  // BASTION_KERNELS_CUDA_ATTENTION_ATTENTION_MERGE_H_
