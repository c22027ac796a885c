// The arithmetic of attention for a key tile (64 keys and their values): multiply queries by keys,
// compute the softmax weights and add up the weighted values. It uses matrices of 16 packed rows
// (attention_plan.h) and an online softmax in base 2.
//
// The four warps of a block form 4 / kSplit groups. Each group has 16 packed rows. Its kSplit warps
// share the keys of a tile for the scores, exchange the weights, and share the columns of the
// values. So a row's sums do not depend on kSplit. A block processes 64, 32 or 16 packed rows.
#ifndef BASTION_KERNELS_CUDA_ATTENTION_ATTENTION_TILE_H_
#define BASTION_KERNELS_CUDA_ATTENTION_ATTENTION_TILE_H_

#include "kernels/cuda/attention/attention_ring.h"

namespace bastion::kernels::cuda::attention {

// scores [16, kKeys] = query · keys, for kKeys keys of the key tile, starting at `first_key`.
template <int D, int kKeys>
SIMT_DEVICE void Score(const Query<D>& query, uint32_t tile, int first_key,
                       float (&scores)[kKeys / 8][4]) {
  // Order of the 8 x 8 matrices: keys 0 … 7 with columns 0 … 7 and 8 … 15, then keys 8 … 15.
  const int matrix = Lane() / 8;
  const uint32_t rows = tile + (first_key + matrix / 2 * 8 + Lane() % 8) * Ring<D>::kRowBytes;
  const int piece = matrix % 2 ^ Lane() % 8;
  SIMT_UNROLL
  for (int n = 0; n < kKeys / 8; ++n) {
    SIMT_UNROLL
    for (int i = 0; i < 4; ++i) scores[n][i] = 0.0f;
  }
  SIMT_UNROLL_BY(Query<D>::kHeld ? D / 16 : 2)  // Queries in registers need constant indices.
  for (int step = 0; step < D / 16; ++step) {
    uint32_t a[4];
    query.Take(step, a);
    SIMT_UNROLL
    for (int n = 0; n < kKeys / 8; n += 2) {
      uint32_t b[4];
      LoadMatrices(b, rows + 8 * n * Ring<D>::kRowBytes + (2 * step ^ piece) * 16);
      MatrixMultiplyAdd(scores[n], a, b[0], b[1]);
      MatrixMultiplyAdd(scores[n + 1], a, b[2], b[3]);
    }
  }
}

// Sets the scores of keys that the row does not see to −inf. Bit i of `seen` is key i. `half`
// selects one of the lane's two rows.
template <int kKeys>
SIMT_DEVICE void Hide(uint64_t seen, int half, float (&scores)[kKeys / 8][4]) {
  seen >>= 2 * (Lane() % 4);
  SIMT_UNROLL
  for (int n = 0; n < kKeys / 8; ++n) {
    SIMT_UNROLL
    for (int i = 0; i < 2; ++i) {
      if ((seen >> (8 * n + i) & 1) == 0) scores[n][2 * half + i] = -Infinity();
    }
  }
}

// Hides the keys that the warp's rows of the item do not see, in the tile that begins at `begin`.
template <int kSplit>
SIMT_DEVICE void HideUnseen(const AttentionArgs& args, const Item& item, int begin,
                            float (&scores)[kTileKeys / kSplit / 8][4]) {
  if (!item.Masked(begin)) return;
  SIMT_UNROLL
  for (int half = 0; half < 2; ++half) {
    const int row = item.RowOf(Warp() / kSplit * kWarpRows + Lane() / 4 + 8 * half);
    const uint64_t seen = SeenKeys(args, item.span, row, begin);
    Hide<kTileKeys / kSplit>(seen >> (Warp() % kSplit * (kTileKeys / kSplit)), half, scores);
  }
}

// The sums of a warp for its 16 rows and its D / kSplit columns. With g = lane / 4 and t = lane %
// 4, a lane holds columns 8 n + 2 t and 8 n + 2 t + 1 of row g + 8 h in output[n][2 h] and
// output[n][2 h + 1].
template <int D, int kSplit>
struct ChunkSums {
  static constexpr int kColumns = D / 8 / kSplit;  // Groups of 8 columns.

  float output[kColumns][4];
  float peak[2];    // The largest score · scale so far. −inf: the row has seen no key yet.
  float weight[4];  // The sums of weights, as a matrix of equal columns: [0] and [2].

  SIMT_DEVICE void Clear() {
    SIMT_UNROLL
    for (int n = 0; n < kColumns; ++n) {
      SIMT_UNROLL
      for (int i = 0; i < 4; ++i) output[n][i] = 0.0f;
    }
    SIMT_UNROLL
    for (int i = 0; i < 4; ++i) weight[i] = 0.0f;
    peak[0] = peak[1] = -Infinity();
  }
  SIMT_DEVICE void Shrink(int half, float factor) {
    weight[2 * half] *= factor;
    SIMT_UNROLL
    for (int n = 0; n < kColumns; ++n) {
      output[n][2 * half] *= factor;
      output[n][2 * half + 1] *= factor;
    }
  }
};

// What the warps of a group tell each other about a tile.
template <int kSplit>
struct Exchange {
  static constexpr int kRows = kThreads / kWarp / kSplit * kWarpRows;
  static constexpr int kWeightBytes = kRows * 2 * kTileKeys;
  static constexpr int kBytes = kWeightBytes + kRows * kSplit * static_cast<int>(sizeof(float));

  char* weights;  // [rows, 64] in bf16, with the pieces of a row in the order of Ring.
  float* peaks;   // [rows, kSplit]

  SIMT_DEVICE explicit Exchange(char* memory)
      : weights(memory), peaks(reinterpret_cast<float*>(memory + kWeightBytes)) {}

  SIMT_DEVICE static int Place(int row, int piece) {
    return row * 2 * kTileKeys + ((piece ^ (row & 7)) * 16);
  }
};

// The largest score of each of the lane's two rows, among the warp's keys.
template <int kKeys>
SIMT_DEVICE void FindTops(const float (&scores)[kKeys / 8][4], float (&tops)[2]) {
  SIMT_UNROLL
  for (int half = 0; half < 2; ++half) {
    float top = -Infinity();
    SIMT_UNROLL
    for (int n = 0; n < kKeys / 8; ++n) {
      top = Max(top, Max(scores[n][2 * half], scores[n][2 * half + 1]));
    }
    top = Max(top, ShuffleXor(top, 1));
    tops[half] = Max(top, ShuffleXor(top, 2));
  }
}

// How a tile changes the peak of a row. Scores are weighed relative to `base`, and the sums so far
// shrink to it. A row that has seen no key yet keeps the peak −inf.
struct Raise {
  float peak, base, shrink;

  SIMT_DEVICE Raise(float before, float top, float scale)
      : peak(Max(before, top * scale)),
        base(peak == -Infinity() ? 0.0f : peak),
        shrink(Exp2(before - base)) {}
  [[nodiscard]] SIMT_DEVICE float Weight(float score, float scale) const {
    return Exp2(FusedMultiplyAdd(score, scale, -base));
  }
};

// Turns scores into weights 2^(score · scale − peak), rounded to bf16 and packed: weights[n][h] has
// those of keys 8 n + 2 t and 8 n + 2 t + 1 for row g + 8 h. Rescales the sums so far to the new
// peaks. A row that has seen no key yet has weights of zero.
template <int D, int kSplit>
SIMT_DEVICE void Weigh(float scale, const float (&scores)[kTileKeys / kSplit / 8][4],
                       const float (&tops)[2], ChunkSums<D, kSplit>& sums,
                       uint32_t (&weights)[kTileKeys / kSplit / 8][2]) {
  SIMT_UNROLL
  for (int half = 0; half < 2; ++half) {
    const Raise raise(sums.peak[half], tops[half], scale);
    SIMT_UNROLL
    for (int n = 0; n < kTileKeys / kSplit / 8; ++n) {
      weights[n][half] = PackBf16(raise.Weight(scores[n][2 * half], scale),
                                  raise.Weight(scores[n][2 * half + 1], scale));
    }
    sums.peak[half] = raise.peak;
    sums.Shrink(half, raise.shrink);
  }
}

// Adds the values of 16 keys of a tile, and their weights: the left operand `weights`.
template <int D, int kSplit>
SIMT_DEVICE void AddValues(const uint32_t (&weights)[4], uint32_t values, int first_key,
                           ChunkSums<D, kSplit>& sums) {
  constexpr int kColumns = ChunkSums<D, kSplit>::kColumns;
  constexpr uint32_t kOnes = 0x3F803F80u;  // Two bf16.
  // Order of the 8 x 8 matrices: columns 0 … 7 of keys 0 … 7 and 8 … 15, then columns 8 … 15.
  const int matrix = Lane() / 8, part = Warp() % kSplit;
  const uint32_t rows = values + (first_key + matrix % 2 * 8 + Lane() % 8) * Ring<D>::kRowBytes;
  const int piece = matrix / 2 ^ Lane() % 8;
  SIMT_UNROLL
  for (int n = 0; n < kColumns; n += 2) {
    uint32_t b[4];
    LoadMatricesTransposed(b, rows + ((part * kColumns + n) ^ piece) * 16);
    MatrixMultiplyAdd(sums.output[n], weights, b[0], b[1]);
    MatrixMultiplyAdd(sums.output[n + 1], weights, b[2], b[3]);
  }
  MatrixMultiplyAdd(sums.weight, weights, kOnes, kOnes);
}

// The weights of all keys of a tile, as left operands for AddValues.
template <int kSplit>
struct TileWeights {
  uint32_t own[kTileKeys / kSplit / 8][2];  // Those of the warp's keys (Weigh).

  // Tells the other warps of the group. All threads of the block take part.
  SIMT_DEVICE void Share(const Exchange<kSplit>& exchange) const {
    if constexpr (kSplit > 1) {
      const int row = Warp() / kSplit * kWarpRows + Lane() / 4;
      const int first = Warp() % kSplit * (kTileKeys / kSplit / 8);
      SIMT_UNROLL
      for (int n = 0; n < kTileKeys / kSplit / 8; ++n) {
        SIMT_UNROLL
        for (int half = 0; half < 2; ++half) {
          char* const to = exchange.weights + Exchange<kSplit>::Place(row + 8 * half, first + n);
          *reinterpret_cast<uint32_t*>(to + 4 * (Lane() % 4)) = own[n][half];
        }
      }
      SyncBlock();
    }
  }

  // Those of keys 16 · step, ….
  SIMT_DEVICE void Take(const Exchange<kSplit>& exchange, int step, uint32_t (&operand)[4]) const {
    if constexpr (kSplit == 1) {
      SIMT_UNROLL
      for (int i = 0; i < 4; ++i) operand[i] = own[2 * step + i / 2][i % 2];
    } else {
      const int row = Warp() / kSplit * kWarpRows + Lane() % 16;
      LoadMatrices(operand,
                   exchange.weights + Exchange<kSplit>::Place(row, 2 * step + Lane() / 16));
    }
  }
};

// What AddTile needs of the caller.
template <int D, int kSplit>
struct TileInput {
  const Item& item;
  const Query<D>& query;
  Exchange<kSplit> exchange;
  float scale;    // For scores, in base 2.
  int steps = 4;  // The tile has keys in its first 16 · steps places only.

  // Whether the warp has rows. All warps must call AddTile.
  [[nodiscard]] SIMT_DEVICE bool active() const {
    return kSplit > 1 || Warp() * kWarpRows < item.rows;
  }
};

// Adds a key tile to the sums. `keys` is its address, `hide` hides the scores of unseen keys, and
// `values` waits for the values and returns their address. All threads of the block see them then.
template <int D, int kSplit, typename Hide, typename Values>
SIMT_DEVICE void AddTile(const TileInput<D, kSplit>& input, uint32_t keys, const Hide& hide,
                         const Values& values, ChunkSums<D, kSplit>& sums) {
  constexpr int kKeys = kTileKeys / kSplit;
  float scores[kKeys / 8][4], tops[2] = {-Infinity(), -Infinity()};
  if (input.active()) {
    Score<D, kKeys>(input.query, keys, Warp() % kSplit * kKeys, scores);
    hide(scores);
    FindTops<kKeys>(scores, tops);
  }
  const int row = Warp() / kSplit * kWarpRows + Lane() / 4;
  if (kSplit > 1 && Lane() % 4 == 0) {
    SIMT_UNROLL
    for (int half = 0; half < 2; ++half) {
      input.exchange.peaks[(row + 8 * half) * kSplit + Warp() % kSplit] = tops[half];
    }
  }
  TileWeights<kSplit> weights;
  if (kSplit == 1 && input.active()) {
    Weigh<D, kSplit>(input.scale, scores, tops, sums, weights.own);
  }
  const uint32_t tile = values();
  if constexpr (kSplit > 1) {
    SIMT_UNROLL
    for (int half = 0; half < 2; ++half) {
      SIMT_UNROLL
      for (int part = 0; part < kSplit; ++part) {
        tops[half] = Max(tops[half], input.exchange.peaks[(row + 8 * half) * kSplit + part]);
      }
    }
    Weigh<D, kSplit>(input.scale, scores, tops, sums, weights.own);
  }
  weights.Share(input.exchange);
  if (!input.active()) return;
  SIMT_UNROLL
  for (int step = 0; step < kTileKeys / 16; ++step) {
    if (step >= input.steps) break;
    uint32_t operand[4];
    weights.Take(input.exchange, step, operand);
    AddValues<D, kSplit>(operand, tile, 16 * step, sums);
  }
}

}  // namespace bastion::kernels::cuda::attention

#endif  // BASTION_KERNELS_CUDA_ATTENTION_ATTENTION_TILE_H_
