// What attention.cu's warps do with a tile of 64 keys: copy it to shared memory, multiply queries
// with keys, weigh, and add up values, in matrices of 16 packed rows (attention_plan.h), with an
// online softmax in base 2.
//
// A block's four warps are 4 / kSplit groups of 16 rows; the kSplit warps of a group share its
// keys: a tile of 64, 32 or 16 packed rows.
#ifndef BASTION_KERNELS_CUDA_ATTENTION_ATTENTION_TILE_H_
#define BASTION_KERNELS_CUDA_ATTENTION_ATTENTION_TILE_H_

#include "kernels/cuda/attention/attention_plan.h"

namespace bastion::kernels::cuda::attention {

// Shared memory for heads of up to D elements: a ring of tiles, keys and values in turn, each row's
// pieces of 16 bytes at places that depend on the row, so that no eight rows of a matrix are in the
// same banks. Queries of heads too wide for registers lie behind it in the same way. After the last
// tile all of it is used for what the warps have summed up. 96 KiB and less: two blocks find room
// on a multiprocessor of sm_90, one on that of sm_86.
template <int D>
struct Ring {
  static constexpr bool kSharedQueries = D > 128;
  static constexpr int kRowBytes = 2 * D;
  static constexpr int kSlotBytes = kTileKeys * kRowBytes;
  static constexpr int kSlots = D <= 128 ? 6 : 2;
  static constexpr int kQueryBytes = kSharedQueries ? kMostTileRows * kRowBytes : 0;
  static constexpr int kBytes = kSlots * kSlotBytes + kQueryBytes;

  SIMT_DEVICE static int Place(int row, int piece) {
    return row * kRowBytes + ((piece ^ (row & 7)) * 16);
  }
};

// Brings an item's tiles into the ring, one load after the other: the keys of its first tile, their
// values, the keys of the next. Columns past the head's and rows past the span's are zeros.
template <int D>
struct Loader {
  static constexpr int kPieces = D / 8;  // Of a row.
  static constexpr int kPassRows = kThreads / kPieces;
  static constexpr int kPassesPerPage = kPageTokens / kPassRows;
  static constexpr int kTilePages = kTileKeys / kPageTokens;
  static constexpr int kTilesPerWarp = kWarp / kTilePages;  // Whose pages a warp holds together.

  const AttentionArgs& args;
  const Item& item;
  uint32_t ring;
  int offset;       // Of the thread's piece and row in page 0, in elements.
  int load = 0;     // The next one: tile load / 2.
  int slot = 0;     // Where it goes.
  int held, ahead;  // Pages of the tiles under way, one a lane, and those after them.

  SIMT_DEVICE Loader(const AttentionArgs& attention, const Item& work, uint32_t slots)
      : args(attention), item(work), ring(slots) {
    const int row = item.kv_head * kPageTokens + ThreadIndex() / kPieces;
    offset = row * args.cache.head_dim + Piece() * 8;
    held = PageOf(0);
    ahead = PageOf(1);
  }

  SIMT_DEVICE static int Piece() { return ThreadIndex() % kPieces; }

  // The lane's page of the `turn`-th kWarp pages.
  SIMT_DEVICE int PageOf(int turn) const {
    const int page = item.begin / kPageTokens + turn * kWarp + Lane();
    return page * kPageTokens < item.span.length() ? args.rows.pages[item.first_page + page] : 0;
  }

  // Starts the next load, or an empty one after the last, into the next slot.
  SIMT_DEVICE void Next() {
    const int tile = load / 2, first_key = item.begin + tile * kTileKeys;
    if (first_key < item.end) {
      const int place = tile % kTilesPerWarp;
      if (load % 2 == 0 && place == 0 && tile > 0) {
        held = ahead;
        ahead = PageOf(tile / kTilesPerWarp + 1);
      }
      const auto* from =
          static_cast<const uint16_t*>(load % 2 == 0 ? args.cache.keys : args.cache.values);
      SIMT_UNROLL
      for (int p = 0; p < kTilePages; ++p) {
        const int64_t page = Shuffle(held, place * kTilePages + p);
        CopyPage(from + (page * args.cache.kv_heads * kPageTokens * args.cache.head_dim + offset),
                 first_key, p * kPageTokens);
      }
    }
    CommitCopies();
    ++load;
    slot = slot + 1 < Ring<D>::kSlots ? slot + 1 : 0;
  }

  // 16 rows to row `to` on of the slot, whose first is that of key `first_key`.
  SIMT_DEVICE void CopyPage(const uint16_t* from, int first_key, int to) const {
    const uint32_t tile = ring + slot * Ring<D>::kSlotBytes;
    SIMT_UNROLL
    for (int pass = 0; pass < kPassesPerPage; ++pass) {
      const int row = to + pass * kPassRows + ThreadIndex() / kPieces;
      const bool there = Piece() * 8 < args.cache.head_dim && first_key + row < item.span.length();
      CopyAsync16(tile + Ring<D>::Place(row, Piece()),
                  from + pass * kPassRows * args.cache.head_dim, there);
    }
  }
};

// The queries of a warp's 16 rows as the left matrices of the products, one for 16 columns. The
// block has them in registers, or where heads are wide in shared memory, behind the first wait for
// copies and SyncBlock.
template <int D>
struct Query {
  static constexpr bool kHeld = !Ring<D>::kSharedQueries;

  uint32_t held[kHeld ? D / 16 : 1][4];
  uint32_t row;  // Of the lane in shared memory.

  // The block's part: the first copies under way.
  SIMT_DEVICE static void Start(const AttentionArgs& args, const Item& item, uint32_t ring) {
    if constexpr (!kHeld) {
      const uint32_t queries = ring + Ring<D>::kSlots * Ring<D>::kSlotBytes;
      for (int i = ThreadIndex(); i < item.tile_rows * (D / 8); i += kThreads) {
        const int tile_row = i / (D / 8), piece = i % (D / 8);
        CopyAsync16(queries + Ring<D>::Place(tile_row, piece),
                    RowAt(args, item, tile_row) + piece * 8, piece * 8 < args.cache.head_dim);
      }
    }
  }

  SIMT_DEVICE Query(const AttentionArgs& args, const Item& item, uint32_t ring, int first_row) {
    if constexpr (kHeld) {
      SIMT_UNROLL
      for (int i = 0; i < 2; ++i) {
        const uint16_t* from = RowAt(args, item, first_row + Lane() / 4 + 8 * i);
        SIMT_UNROLL
        for (int n = 0; n < D / 8; ++n) {
          const int column = 8 * n + 2 * (Lane() % 4);
          held[n / 2][i + n % 2 * 2] =
              column < args.cache.head_dim ? *reinterpret_cast<const uint32_t*>(from + column) : 0;
        }
      }
    } else {
      // Matrices of 8 rows x 8 columns: rows 0 … 7 and 8 … 15 of columns 0 … 7, then of 8 … 15.
      row = ring + Ring<D>::kSlots * Ring<D>::kSlotBytes +
            (first_row + Lane() % 16) * Ring<D>::kRowBytes;
    }
  }

  SIMT_DEVICE static const uint16_t* RowAt(const AttentionArgs& args, const Item& item, int i) {
    const int64_t at = item.span.first_row + item.RowOf(i);
    return static_cast<const uint16_t*>(args.query) +
           (at * args.query_heads + item.HeadOf(i)) * args.cache.head_dim;
  }

  SIMT_DEVICE void Take(int step, uint32_t (&words)[4]) const {
    if constexpr (kHeld) {
      SIMT_UNROLL
      for (int i = 0; i < 4; ++i) words[i] = held[step][i];
    } else {
      LoadMatrices(words, row + ((2 * step + Lane() / 16) ^ (Lane() % 8)) * 16);
    }
  }
};

// What a warp has summed up for its 16 rows. With g = lane / 4 and t = lane % 4 a lane has of row
// g + 8 h: columns 8 n + 2 t and 8 n + 2 t + 1 in output[n][2 h], output[n][2 h + 1].
template <int D>
struct Sums {
  float output[D / 8][4];
  float peak[2];    // The largest score so far, times log2(e); −inf: no key was seen yet.
  float weight[2];  // Of the lane's own keys.

  SIMT_DEVICE void Clear() {
    SIMT_UNROLL
    for (int n = 0; n < D / 8; ++n) {
      SIMT_UNROLL
      for (int i = 0; i < 4; ++i) output[n][i] = 0.0f;
    }
    SIMT_UNROLL
    for (int half = 0; half < 2; ++half) {
      peak[half] = -Infinity();
      weight[half] = 0.0f;
    }
  }
};

// scores [16, kKeys] = query · keys, of the keys of the tile from `first_key` on.
template <int D, int kKeys>
SIMT_DEVICE void Score(const Query<D>& query, uint32_t tile, int first_key,
                       float (&scores)[kKeys / 8][4]) {
  // Matrices of 8 keys x 8 columns: keys 0 … 7 with columns 0 … 7 and 8 … 15, then keys 8 … 15.
  const int matrix = Lane() / 8;
  const uint32_t rows = tile + (first_key + matrix / 2 * 8 + Lane() % 8) * Ring<D>::kRowBytes;
  const int piece = matrix % 2 ^ Lane() % 8;
  SIMT_UNROLL
  for (int n = 0; n < kKeys / 8; ++n) {
    SIMT_UNROLL
    for (int i = 0; i < 4; ++i) scores[n][i] = 0.0f;
  }
  SIMT_UNROLL
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

// −inf where row `half` of the lane's two does not see the key; bit i of `seen` is key i.
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

// Scores become weights 2^(score · scale − peak), and what was summed up before is scaled to the
// new peaks. A row that has seen no key yet keeps the peak −inf and weights of zero.
template <int D, int kKeys>
SIMT_DEVICE void Weigh(float scale, float (&scores)[kKeys / 8][4], Sums<D>& sums) {
  SIMT_UNROLL
  for (int half = 0; half < 2; ++half) {
    float top = -Infinity();
    SIMT_UNROLL
    for (int n = 0; n < kKeys / 8; ++n) {
      top = Max(top, Max(scores[n][2 * half], scores[n][2 * half + 1]));
    }
    top = Max(top, ShuffleXor(top, 1));
    top = Max(top, ShuffleXor(top, 2));
    const float peak = Max(sums.peak[half], top * scale);
    const float base = peak == -Infinity() ? 0.0f : peak;
    const float shrink = Exp2(sums.peak[half] - base);
    float added = 0;
    SIMT_UNROLL
    for (int n = 0; n < kKeys / 8; ++n) {
      SIMT_UNROLL
      for (int i = 2 * half; i < 2 * half + 2; ++i) {
        scores[n][i] = Exp2(scores[n][i] * scale - base);
        added += scores[n][i];
      }
    }
    sums.weight[half] = sums.weight[half] * shrink + added;
    sums.peak[half] = peak;
    SIMT_UNROLL
    for (int n = 0; n < D / 8; ++n) {
      sums.output[n][2 * half] *= shrink;
      sums.output[n][2 * half + 1] *= shrink;
    }
  }
}

// output [16, D] += weights [16, kKeys] · values, of the keys of the tile from `first_key` on. The
// weights, rounded to bf16, lie as the product's left matrices want them.
template <int D, int kKeys>
SIMT_DEVICE void AddValues(const float (&weights)[kKeys / 8][4], uint32_t tile, int first_key,
                           float (&output)[D / 8][4]) {
  // Matrices of 8 keys x 8 columns: columns 0 … 7 of keys 0 … 7 and 8 … 15, then columns 8 … 15.
  const int matrix = Lane() / 8;
  const uint32_t rows = tile + (first_key + matrix % 2 * 8 + Lane() % 8) * Ring<D>::kRowBytes;
  const int piece = matrix / 2 ^ Lane() % 8;
  SIMT_UNROLL
  for (int n = 0; n < kKeys / 8; n += 2) {
    const uint32_t a[4] = {PackBf16(weights[n][0], weights[n][1]),
                           PackBf16(weights[n][2], weights[n][3]),
                           PackBf16(weights[n + 1][0], weights[n + 1][1]),
                           PackBf16(weights[n + 1][2], weights[n + 1][3])};
    SIMT_UNROLL
    for (int column = 0; column < D / 8; column += 2) {
      uint32_t b[4];
      LoadMatricesTransposed(b, rows + 8 * n * Ring<D>::kRowBytes + (column ^ piece) * 16);
      MatrixMultiplyAdd(output[column], a, b[0], b[1]);
      MatrixMultiplyAdd(output[column + 1], a, b[2], b[3]);
    }
  }
}

}  // namespace bastion::kernels::cuda::attention

#endif  // BASTION_KERNELS_CUDA_ATTENTION_ATTENTION_TILE_H_
