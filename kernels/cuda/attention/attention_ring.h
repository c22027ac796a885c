// The operands of attention in shared memory: a ring of key tiles and their values, and the
// queries.
#ifndef BASTION_KERNELS_CUDA_ATTENTION_ATTENTION_RING_H_
#define BASTION_KERNELS_CUDA_ATTENTION_ATTENTION_RING_H_

#include "kernels/cuda/attention/attention_plan.h"

namespace bastion::kernels::cuda::attention {

// The shared memory for heads of up to D elements: a ring of slots. A slot holds the keys or the
// values of a key tile. The order of the 16-byte pieces of a row depends on the row, so that the
// eight rows of an 8 x 8 matrix (LoadMatrices) lie in different banks. If D is too large to keep
// queries in registers, the queries follow the ring in the same layout. The merged chunks (Totals)
// and the Exchange follow. The size is at most 98 KiB, so that two blocks fit on a multiprocessor
// of sm_90 and one on a multiprocessor of sm_86.
template <int D>
struct Ring {
  static constexpr bool kSharedQueries = D > 64;
  static constexpr int kMaxRows = D <= 128 ? 64 : kWarpRows;  // Packed rows of an item.
  static constexpr int kRowBytes = 2 * D;
  static constexpr int kSlotBytes = kTileKeys * kRowBytes;
  static constexpr int kSlots = D <= 64 ? 6 : D <= 128 ? 3 : 2;
  static constexpr int kQueryBytes = kSharedQueries ? kMaxRows * kRowBytes : 0;

  SIMT_DEVICE static int Place(int row, int piece) {
    return row * kRowBytes + ((piece ^ (row & 7)) * 16);
  }
};

// Loads the key tiles of an item into the ring, in this order: the keys of the first tile, its
// values, the keys of the second tile, and so on. Columns past head_dim and rows past the end of
// the span become zeros.
template <int D>
struct Loader {
  static constexpr int kPieces = D / 8;  // 16-byte pieces of a row.
  static constexpr int kPassRows = kThreads / kPieces;
  static constexpr int kPassesPerPage = kPageTokens / kPassRows;
  static constexpr int kTilePages = kTileKeys / kPageTokens;
  static constexpr int kTilesPerWarp = kWarp / kTilePages;  // Tiles whose pages a warp holds.

  const AttentionArgs& args;
  const Item& item;
  uint32_t ring;
  int offset;  // Offset of the thread's piece and row in page 0, in elements.
  int load =
      0;  // Number of the next load. It belongs to tile load / 2, and fills slot load % kSlots.
  // This lane's page number in the group of pages that is being loaded, and in the next group
  // (PageOf).
  int held, ahead;

  SIMT_DEVICE Loader(const AttentionArgs& attention, const Item& work, uint32_t slots)
      : args(attention), item(work), ring(slots) {
    const int row = item.kv_head * kPageTokens + ThreadIndex() / kPieces;
    offset = row * args.cache.head_dim + Piece() * 8;
    held = PageOf(0);
    ahead = PageOf(1);
  }

  SIMT_DEVICE static int Piece() { return ThreadIndex() % kPieces; }

  // This lane's page number in the `turn`-th group of kWarp pages.
  SIMT_DEVICE int PageOf(int turn) const {
    const int page = item.begin / kPageTokens + turn * kWarp + Lane();
    return page * kPageTokens < item.span.length() ? args.rows.pages[item.first_page + page] : 0;
  }

  // Starts the next load into the next slot. If no load is left, commits an empty group of
  // copies, so that WaitCopies can still count groups.
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
  }

  // Copies the 16 rows of a page to the slot, starting at row `to`. `from` is the first piece that
  // this thread copies. Row 0 of the slot is key `first_key`.
  SIMT_DEVICE void CopyPage(const uint16_t* from, int first_key, int to) const {
    const uint32_t tile = ring + load % Ring<D>::kSlots * Ring<D>::kSlotBytes;
    SIMT_UNROLL
    for (int pass = 0; pass < kPassesPerPage; ++pass) {
      const int row = to + pass * kPassRows + ThreadIndex() / kPieces;
      const bool valid = Piece() * 8 < args.cache.head_dim && first_key + row < item.span.length();
      CopyAsync16(tile + Ring<D>::Place(row, Piece()),
                  from + pass * kPassRows * args.cache.head_dim, valid);
    }
  }
};

// The queries [R, H, D] of row `i` of the item.
SIMT_DEVICE const uint16_t* QueriesOf(const AttentionArgs& args, const Item& item, const void* all,
                                      int i) {
  const int64_t at = item.span.first_row + item.RowOf(i);
  return static_cast<const uint16_t*>(all) +
         (at * args.query_heads + item.HeadOf(i)) * args.cache.head_dim;
}

// Loads the queries of 16 rows of the item, from row `first_row` on, as left operands of matrix
// products: operand n has columns [16 n, 16 n + 16).
template <int kOperands>
SIMT_DEVICE void LoadQueries(const AttentionArgs& args, const Item& item, const void* all,
                             int first_row, uint32_t (&operands)[kOperands][4]) {
  SIMT_UNROLL
  for (int i = 0; i < 2; ++i) {
    const uint16_t* from = QueriesOf(args, item, all, first_row + Lane() / 4 + 8 * i);
    SIMT_UNROLL
    for (int n = 0; n < 2 * kOperands; ++n) {
      const int column = 8 * n + 2 * (Lane() % 4);
      operands[n / 2][i + n % 2 * 2] =
          column < args.cache.head_dim ? *reinterpret_cast<const uint32_t*>(from + column) : 0;
    }
  }
}

// The queries of a warp's 16 rows, as left operands of matrix products. Each operand has the 16
// rows and 16 of the D columns. The operands are in registers, or in shared memory if D is large.
// In shared memory they are valid after the first wait for copies and SyncBlock.
template <int D>
struct Query {
  static constexpr bool kHeld = !Ring<D>::kSharedQueries;

  uint32_t held[kHeld ? D / 16 : 1][4];
  uint32_t row;  // Address of the lane's row in shared memory.

  // Starts copying the block's queries from `all` [R, H, D] to shared memory. `queries` is where.
  // Must be called before any load of the ring.
  SIMT_DEVICE static void Start(const AttentionArgs& args, const Item& item, const void* all,
                                uint32_t queries) {
    if constexpr (!kHeld) {
      for (int i = ThreadIndex(); i < item.tile_rows * (D / 8); i += kThreads) {
        const int tile_row = i / (D / 8), piece = i % (D / 8);
        CopyAsync16(queries + Ring<D>::Place(tile_row, piece),
                    QueriesOf(args, item, all, tile_row) + piece * 8,
                    piece * 8 < args.cache.head_dim);
      }
    }
  }

  // Takes the same arguments. `first_row` is the warp's first row in the tile.
  SIMT_DEVICE Query(const AttentionArgs& args, const Item& item, const void* all, uint32_t queries,
                    int first_row) {
    if constexpr (kHeld) {
      LoadQueries(args, item, all, first_row, held);
    } else {
      // Order of the 8 x 8 matrices: rows 0 … 7 and rows 8 … 15 of columns 0 … 7, then the same
      // rows of columns 8 … 15.
      row = queries + (first_row + Lane() % 16) * Ring<D>::kRowBytes;
    }
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

}  // namespace bastion::kernels::cuda::attention

#endif  // BASTION_KERNELS_CUDA_ATTENTION_ATTENTION_RING_H_
