// How the attention of a step is cut into items of work, where their partial results lie, and which
// keys a row sees: what attention.cu's kernels decide before they multiply anything.
//
// The heads that share a kv head are rows of one matrix: packed row p of a span is its row p /
// group with head p % group of the kv head's, group = H / G. An item is a tile of packed rows of
// one kv head against a chunk of the span's keys. How a span is cut depends on its own rows, length
// and window alone, so a sequence gets the same bits whoever else is in the step.
#ifndef BASTION_KERNELS_CUDA_ATTENTION_ATTENTION_PLAN_H_
#define BASTION_KERNELS_CUDA_ATTENTION_ATTENTION_PLAN_H_

#include "kernels/cuda/ops.h"
#include "kernels/cuda/simt/simt.h"

namespace bastion::kernels::cuda::attention {

using namespace simt;

inline constexpr int kThreads = 128;  // Of a block: four warps.
inline constexpr int kTileKeys = 64;  // Keys that a block takes at once, four pages.
inline constexpr int kWarpRows = 16;  // Packed rows that a warp holds, as its matrices have.
inline constexpr int kMostTileRows = 64;
inline constexpr int kLeastChunk = 128;  // Keys below which a chunk is not worth its merging.

// Items that one span is cut into at most: about two blocks for each multiprocessor of the largest
// GPUs. Fewer when all its rows are one tile, which bounds the scratch (PartialRowsBound).
inline constexpr int kMostItems = 256;
inline constexpr int kMostItemsOfOneTile = 192;

// Scratch: counters of arrived chunks, at the same place whatever a launch's capacities are, then
// partial results. Those of one tile and chunk with n rows are [n, 4], the row's largest score and
// sum of weights first, then [n, D] of weighted values; a row takes D + 4 floats.
inline constexpr int kMostTiles = 1 << 16;
inline constexpr size_t kCounterBytes = kMostTiles * sizeof(int32_t);
inline constexpr int kRowExtra = 4;

// One span of the step.
struct Span {
  int index = 0;
  int first_row = 0;
  int rows = 0;
  int cached = 0;
  RowMask mask = RowMask::kCausal;

  [[nodiscard]] SIMT_DEVICE int length() const { return cached + rows; }
};

SIMT_DEVICE Span SpanAt(const AttentionArgs& args, int index) {
  Span span;
  span.index = index;
  span.first_row = args.rows.first_rows[index];
  span.rows = args.rows.first_rows[index + 1] - span.first_row;
  span.cached = args.rows.cached[index];
  span.mask = static_cast<RowMask>(args.rows.masks[index]);
  if (span.mask == RowMask::kFull && args.causal) span.mask = RowMask::kCausal;
  return span;
}

SIMT_DEVICE int GroupOf(const AttentionArgs& args) {
  return args.query_heads / args.cache.kv_heads;
}

// The first key that a row at `position` or a later one may see.
SIMT_DEVICE int FirstSeen(const AttentionArgs& args, int position) {
  return args.window > 0 ? Max(position - args.window + 1, 0) : 0;
}

// How a span is cut, for each of its kv heads.
struct Cut {
  int packed = 0;      // Rows x group.
  int tile_rows = 0;   // 16, 32 or 64 packed rows.
  int tiles = 0;       // Of rows.
  int first_key = 0;   // A multiple of kTileKeys; nobody sees a key below.
  int chunk_keys = 0;  // A multiple of kTileKeys.
  int chunks = 0;      // Of keys, none of them empty.

  [[nodiscard]] SIMT_DEVICE int items(int kv_heads) const { return kv_heads * tiles * chunks; }
  [[nodiscard]] SIMT_DEVICE int partial_rows(int kv_heads) const {
    return chunks > 1 ? kv_heads * chunks * packed : 0;
  }
};

// Chunks for `keys` keys of a span with this many tiles of `rows` packed rows. What the last block
// has to merge grows with chunks x rows, what each block has to do before falls with the chunks:
// the sum is least about where chunks² x rows = 2 x keys (64 rows: 8 chunks at 2K keys, 32 at 32K).
SIMT_DEVICE int ChunksFor(int keys, int rows, int tiles_of_all_heads, bool one_tile) {
  const int limit = (one_tile ? kMostItemsOfOneTile : kMostItems) / Max(tiles_of_all_heads, 1);
  const float balanced = Sqrt(static_cast<float>(2 * keys) / static_cast<float>(Max(rows, 1)));
  const int wanted = Min((keys + kLeastChunk - 1) / kLeastChunk, static_cast<int>(balanced));
  return Max(Min(wanted, limit), 1);
}

SIMT_DEVICE Cut CutSpan(const AttentionArgs& args, const Span& span) {
  Cut cut;
  cut.packed = span.rows * GroupOf(args);
  cut.tile_rows = cut.packed <= kWarpRows       ? kWarpRows
                  : cut.packed <= 2 * kWarpRows ? 2 * kWarpRows
                                                : kMostTileRows;
  cut.tiles = (cut.packed + cut.tile_rows - 1) / cut.tile_rows;
  // No row of a span has a position below that of its first.
  const int first = args.window > 0 ? FirstSeen(args, args.rows.positions[span.first_row]) : 0;
  cut.first_key = Min(first, span.cached) / kTileKeys * kTileKeys;
  const int keys = span.length() - cut.first_key;
  const int chunks = ChunksFor(keys, Min(cut.packed, kMostTileRows),
                               cut.tiles * args.cache.kv_heads, cut.tiles == 1);
  const int share = (keys + chunks - 1) / chunks;
  cut.chunk_keys = (share + kTileKeys - 1) / kTileKeys * kTileKeys;
  cut.chunks = (keys + cut.chunk_keys - 1) / cut.chunk_keys;
  return cut;
}

// Rows of partial results of any spans with `rows` rows together. A span of one tile has at most
// kMostItemsOfOneTile / G chunks, hence as many times its packed rows in partial ones over all kv
// heads; of more tiles, kMostItems / 2 times. And no item has more than kMostTileRows.
inline size_t PartialRowsBound(size_t rows, size_t spans, size_t group) {
  const size_t by_rows = kMostItemsOfOneTile * rows * group;
  const size_t by_spans = size_t{kMostItems} * kMostTileRows * spans;
  return by_rows < by_spans ? by_rows : by_spans;
}

// Counters of any such spans, which have at most rows x group / 64 + 1 tiles each.
inline size_t TilesBound(size_t rows, size_t spans, size_t query_heads, size_t kv_heads) {
  return rows * query_heads / kMostTileRows + kv_heads * (spans + 1);
}
SIMT_DEVICE int FirstCounter(const AttentionArgs& args, const Span& span) {
  return args.cache.kv_heads * (span.first_row * GroupOf(args) / kMostTileRows + span.index);
}

// All items of a step in shared memory: those of span b are [first_items[b], first_items[b + 1]),
// and the partial rows of the chunks that it is cut into begin at first_partials[b].
struct Plan {
  int32_t* first_items = nullptr;     // [B + 1]
  int32_t* first_partials = nullptr;  // [B + 1]
  int spans = 0;                      // In use

  [[nodiscard]] SIMT_DEVICE int items() const { return first_items[spans]; }
  [[nodiscard]] static size_t Bytes(int span_capacity) {
    return 2 * (static_cast<size_t>(span_capacity) + 1) * sizeof(int32_t);
  }
};

// One warp turns counts[1 … n] into their running sums.
SIMT_DEVICE void SumUp(int32_t* counts, int n) {
  int32_t before = 0;
  for (int begin = 1; begin <= n; begin += kWarp) {
    const int i = begin + Lane();
    int32_t sum = i <= n ? counts[i] : 0;
    SIMT_UNROLL
    for (int step = 1; step < kWarp; step *= 2) {
      const int32_t lower = Shuffle(sum, Lane() - step);
      if (Lane() >= step) sum += lower;
    }
    if (i <= n) counts[i] = before + sum;
    before += Shuffle(sum, kWarp - 1);
  }
  if (Lane() == 0) counts[0] = 0;
}

// The whole block makes the plan at `shared`.
SIMT_DEVICE Plan MakePlan(const AttentionArgs& args, char* shared) {
  Plan plan;
  plan.first_items = reinterpret_cast<int32_t*>(shared);
  plan.first_partials = plan.first_items + args.rows.span_capacity + 1;
  plan.spans = args.rows.used[1];
  for (int b = ThreadIndex(); b < plan.spans; b += kThreads) {
    const Cut cut = CutSpan(args, SpanAt(args, b));
    plan.first_items[b + 1] = cut.items(args.cache.kv_heads);
    plan.first_partials[b + 1] = cut.partial_rows(args.cache.kv_heads);
  }
  SyncBlock();
  if (Warp() == 0) SumUp(plan.first_items, plan.spans);
  if (Warp() == 1) SumUp(plan.first_partials, plan.spans);
  SyncBlock();
  return plan;
}

// One item: packed rows [first, first + rows) of a kv head against keys [begin, end).
struct Item {
  Span span;
  int first_page = 0;  // Of the span's pages
  int group = 1;
  int kv_head = 0;
  int tile_rows = 0;  // 16, 32 or 64
  int first = 0;      // A packed row
  int rows = 0;       // Packed rows that there are, of tile_rows
  int chunk = 0;
  int chunks = 0;
  int begin = 0;        // A multiple of kTileKeys
  int end = 0;          // begin or less: no row sees any of the chunk's keys
  int plain_begin = 0;  // All rows see all keys in [plain_begin, plain_end): no mask is needed.
  int plain_end = 0;
  int counter = 0;  // Of the tile's chunks that are done
  int partial = 0;  // The row of scratch where the tile's chunks begin

  // The row of the span that packed row `first + i` belongs to; past the end the last one.
  [[nodiscard]] SIMT_DEVICE int RowOf(int i) const { return (first + Min(i, rows - 1)) / group; }
  [[nodiscard]] SIMT_DEVICE int HeadOf(int i) const {
    return kv_head * group + (first + Min(i, rows - 1)) % group;
  }
  [[nodiscard]] SIMT_DEVICE bool Masked(int first_key) const {
    return first_key < plain_begin || first_key + kTileKeys > plain_end;
  }
};

// What the windows of the item's rows hide of its keys: all below begin, some below plain_begin.
SIMT_DEVICE void NarrowToWindows(const AttentionArgs& args, Item& item) {
  if (args.window <= 0) return;
  const int last_row = item.RowOf(item.rows - 1);
  int least = args.rows.positions[item.span.first_row + item.RowOf(0)], most = least;
  for (int i = item.RowOf(0) + Lane(); i <= last_row; i += kWarp) {
    const int position = args.rows.positions[item.span.first_row + i];
    least = Min(least, position);
    most = Max(most, position);
  }
  SIMT_UNROLL
  for (int step = kWarp / 2; step > 0; step /= 2) {
    least = Min(least, ShuffleXor(least, step));
    most = Max(most, ShuffleXor(most, step));
  }
  // Rows added in this step lie where their positions do not say: they are looked at one by one.
  const int seen = Min(FirstSeen(args, least), item.span.cached);
  item.begin = Max(item.begin, seen / kTileKeys * kTileKeys);
  item.plain_begin = FirstSeen(args, most);
}

// Item `index` of the plan, found by one warp. Items of the same kv head and chunk come one after
// the other, so that their keys and values come from the cache.
SIMT_DEVICE Item ItemAt(const AttentionArgs& args, const Plan& plan, int index) {
  int b = 0;
  for (int above = plan.spans; above - b > 1;) {
    const int middle = (b + above) / 2;
    (plan.first_items[middle] <= index ? b : above) = middle;
  }
  Item item;
  item.span = SpanAt(args, b);
  const Cut cut = CutSpan(args, item.span);
  const int place = index - plan.first_items[b], tile = place % cut.tiles;
  item.first_page = args.rows.first_pages[b];
  item.group = GroupOf(args);
  item.tile_rows = cut.tile_rows;
  item.first = tile * cut.tile_rows;
  item.rows = Min(cut.tile_rows, cut.packed - item.first);
  item.chunk = place / cut.tiles % cut.chunks;
  item.chunks = cut.chunks;
  item.kv_head = place / cut.tiles / cut.chunks;
  item.begin = cut.first_key + item.chunk * cut.chunk_keys;
  item.end = Min(item.begin + cut.chunk_keys, item.span.length());
  if (item.span.mask == RowMask::kCausal) {
    item.end = Min(item.end, item.span.cached + item.RowOf(item.rows - 1) + 1);
  }
  item.plain_end = item.span.cached;
  NarrowToWindows(args, item);
  item.counter = FirstCounter(args, item.span) + item.kv_head * cut.tiles + tile;
  item.partial = plan.first_partials[b] + (item.kv_head * cut.packed + item.first) * cut.chunks;
  return item;
}

// The results of chunk `chunk` of the item's tile: [rows, 4], then [rows, D].
SIMT_DEVICE float* PartialAt(const AttentionArgs& args, const Item& item, int chunk) {
  float* begin = reinterpret_cast<float*>(static_cast<char*>(args.scratch) + kCounterBytes);
  return begin +
         static_cast<int64_t>(item.partial + chunk * item.rows) * (args.cache.head_dim + kRowExtra);
}

// The lowest n bits.
SIMT_DEVICE uint64_t LowBits(int n) {
  return n <= 0 ? 0 : n >= 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1;
}

// 64 bits of `words` from bit `at` on; zeros past the end. REQUIRES: at >= 0.
SIMT_DEVICE uint64_t BitsFrom(const uint64_t* words, int count, int at) {
  const int word = at / 64, shift = at % 64;
  uint64_t bits = word < count ? words[word] >> shift : 0;
  if (shift > 0 && word + 1 < count) bits |= words[word + 1] << (64 - shift);
  return bits;
}

// Which of the keys [first_key, first_key + 64) row `row` of the span sees, the window aside.
SIMT_DEVICE uint64_t Unhidden(const StepRows& rows, const Span& span, int row, int first_key) {
  const int own = first_key - span.cached;  // The span's row whose key is the first; maybe < 0.
  if (span.mask == RowMask::kCausal) return LowBits(row + 1 - own);
  if (span.mask == RowMask::kFull) return LowBits(span.rows - own);
  const uint64_t* words = rows.ancestors + static_cast<int64_t>(span.first_row + row) * rows.words;
  if (own >= 0) return BitsFrom(words, rows.words, own) & LowBits(span.rows - own);
  if (own <= -64) return ~uint64_t{0};
  return (BitsFrom(words, rows.words, 0) & LowBits(span.rows)) << -own | LowBits(-own);
}

// Which of the keys [first_key, first_key + 64) row `row` of the span sees, as bits.
SIMT_DEVICE uint64_t SeenKeys(const AttentionArgs& args, const Span& span, int row, int first_key) {
  uint64_t seen = Unhidden(args.rows, span, row, first_key);
  if (args.window <= 0) return seen;
  const int32_t* positions = args.rows.positions + span.first_row;
  const int hidden = positions[row] - args.window;  // The last position that is too far back.
  seen &= ~LowBits(Min(hidden + 1, span.cached) - first_key);
  if (hidden < positions[0]) return seen;
  const int end = Min(first_key + 64, span.length());
  SIMT_ROLL
  for (int key = Max(first_key, span.cached); key < end; ++key) {
    if (positions[key - span.cached] <= hidden) seen &= ~(uint64_t{1} << (key - first_key));
  }
  return seen;
}

}  // namespace bastion::kernels::cuda::attention

#endif  // BASTION_KERNELS_CUDA_ATTENTION_ATTENTION_PLAN_H_
