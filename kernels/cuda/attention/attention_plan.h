// The plan of attention.cu: how the attention of a step is divided into work items, where their
// partial results are stored, and which keys a row sees.
//
// The query heads that share a kv head are rows of one matrix. Packed row p of a span is row p /
// group of the span, with head p % group of the kv head's group (group = H / G). An item is a tile
// of packed rows of one kv head and a chunk of the span's keys. (A tile is a tile of rows; a key
// tile is kTileKeys keys.) The division of a span depends only on its own rows, length and window,
// so a sequence gets the same bits regardless of the other sequences in the step.
#ifndef BASTION_KERNELS_CUDA_ATTENTION_ATTENTION_PLAN_H_
#define BASTION_KERNELS_CUDA_ATTENTION_ATTENTION_PLAN_H_

#include "kernels/cuda/ops.h"
#include "kernels/cuda/simt/simt.h"

namespace bastion::kernels::cuda::attention {

using namespace simt;

inline constexpr int kThreads = 128;  // Threads of a block: four warps.
inline constexpr int kTileKeys = 64;  // Keys of a key tile, which a block loads at once.
inline constexpr int kWarpRows = 16;  // Packed rows per warp: the rows of its matrix instructions.
inline constexpr int kMaxTileRows = 64;
inline constexpr int kMinChunk = 128;  // Keys. A smaller chunk costs more to merge than it saves.

// The maximum number of items of one span: about two blocks for each multiprocessor of the largest
// GPUs. The limit is lower if all rows of the span fit in one tile; that bounds the scratch
// (PartialRowsBound).
inline constexpr int kMaxItems = 256;
inline constexpr int kMaxItemsOfOneTile = 192;

// Layout of the scratch: first the counters of finished chunks, which occupy kCounterBytes
// regardless of the launch's capacities, then the partial results. The partial results of one tile
// of n rows and one chunk are [n, 4] floats (the row's largest score, its sum of weights, and two
// unused floats), then [n, D] sums of weighted values. A row occupies D + 4 floats.
inline constexpr int kMaxTiles = 1 << 16;
inline constexpr size_t kCounterBytes = kMaxTiles * sizeof(int32_t);
inline constexpr int kRowExtra = 4;

// One span of the step (StepRows).
struct Span {
  int index = 0;
  int first_row = 0;
  int rows = 0;
  int cached = 0;
  int earlier = 0;  // Rows of the same tree that are already in the cache.
  RowMask mask = RowMask::kCausal;

  [[nodiscard]] SIMT_DEVICE int length() const { return cached + earlier + rows; }
};

SIMT_DEVICE Span SpanAt(const AttentionArgs& args, int index) {
  Span span;
  span.index = index;
  span.first_row = args.rows.first_rows[index];
  span.rows = args.rows.first_rows[index + 1] - span.first_row;
  span.cached = args.rows.cached[index];
  span.earlier = args.rows.earlier[index];
  span.mask = static_cast<RowMask>(args.rows.masks[index]);
  if (span.mask == RowMask::kFull && args.causal) span.mask = RowMask::kCausal;
  return span;
}

SIMT_DEVICE int GroupOf(const AttentionArgs& args) {
  return args.query_heads / args.cache.kv_heads;
}

// The first key that a row at `position` or later can see.
SIMT_DEVICE int FirstSeen(const AttentionArgs& args, int position) {
  return args.window > 0 ? Max(position - args.window + 1, 0) : 0;
}

// How a span is divided, for each kv head.
struct Cut {
  int packed = 0;      // Number of packed rows: rows x group.
  int tile_rows = 0;   // Packed rows per tile: 16, 32 or 64.
  int tiles = 0;       // Number of tiles of rows.
  int first_key = 0;   // No row sees a key below this one. A multiple of kTileKeys.
  int chunk_keys = 0;  // Keys per chunk, a multiple of kTileKeys.
  int chunks = 0;      // Number of chunks of keys. None of them is empty.

  [[nodiscard]] SIMT_DEVICE int items(int kv_heads) const { return kv_heads * tiles * chunks; }
  [[nodiscard]] SIMT_DEVICE int partial_rows(int kv_heads) const {
    return chunks > 1 ? kv_heads * chunks * packed : 0;
  }
};

// The number of chunks for `keys` keys and tiles of `rows` packed rows. With more chunks, the merge
// by the last block takes longer (it grows with chunks x rows), but each block has fewer keys. The
// total time is lowest near chunks² x rows = 2 x keys. For 64 rows, that is 8 chunks at 2K keys and
// 32 at 32K keys.
SIMT_DEVICE int ChunksFor(int keys, int rows, int tiles_of_all_heads, bool one_tile) {
  const int limit = (one_tile ? kMaxItemsOfOneTile : kMaxItems) / Max(tiles_of_all_heads, 1);
  const float balanced = Sqrt(static_cast<float>(2 * keys) / static_cast<float>(Max(rows, 1)));
  const int wanted = Min((keys + kMinChunk - 1) / kMinChunk, static_cast<int>(balanced));
  return Max(Min(wanted, limit), 1);
}

SIMT_DEVICE Cut CutSpan(const AttentionArgs& args, const Span& span) {
  Cut cut;
  cut.packed = span.rows * GroupOf(args);
  cut.tile_rows = cut.packed <= kWarpRows       ? kWarpRows
                  : cut.packed <= 2 * kWarpRows ? 2 * kWarpRows
                                                : kMaxTileRows;
  cut.tiles = (cut.packed + cut.tile_rows - 1) / cut.tile_rows;
  // No row has a lower position than the token after the cached ones.
  cut.first_key = FirstSeen(args, span.cached) / kTileKeys * kTileKeys;
  const int keys = span.length() - cut.first_key;
  const int chunks = ChunksFor(keys, Min(cut.packed, kMaxTileRows), cut.tiles * args.cache.kv_heads,
                               cut.tiles == 1);
  const int share = (keys + chunks - 1) / chunks;
  cut.chunk_keys = (share + kTileKeys - 1) / kTileKeys * kTileKeys;
  cut.chunks = (keys + cut.chunk_keys - 1) / cut.chunk_keys;
  return cut;
}

// Upper bound on the number of rows of partial results, for `spans` spans with `rows` rows in
// total. Over all kv heads, a span of one tile has at most kMaxItemsOfOneTile partial rows per
// packed row, and a span of several tiles at most kMaxItems / 2. A span has at most kMaxItems
// items, and no item has more than kMaxTileRows rows.
inline size_t PartialRowsBound(size_t rows, size_t spans, size_t group) {
  const size_t by_rows = kMaxItemsOfOneTile * rows * group;
  const size_t by_spans = size_t{kMaxItems} * kMaxTileRows * spans;
  return by_rows < by_spans ? by_rows : by_spans;
}

// Upper bound on the number of counters for such spans. A span has at most rows x group / 64 + 1
// tiles per kv head.
inline size_t TilesBound(size_t rows, size_t spans, size_t query_heads, size_t kv_heads) {
  return rows * query_heads / kMaxTileRows + kv_heads * (spans + 1);
}
SIMT_DEVICE int FirstCounter(const AttentionArgs& args, const Span& span) {
  return args.cache.kv_heads * (span.first_row * GroupOf(args) / kMaxTileRows + span.index);
}

// The items of a step, in shared memory. Span b has the items [first_items[b], first_items[b + 1]),
// and its partial rows begin at first_partials[b].
struct Plan {
  int32_t* first_items = nullptr;     // [B + 1]
  int32_t* first_partials = nullptr;  // [B + 1]
  int spans = 0;                      // Spans in use

  [[nodiscard]] SIMT_DEVICE int items() const { return first_items[spans]; }
  [[nodiscard]] static size_t Bytes(int span_capacity) {
    return 2 * (static_cast<size_t>(span_capacity) + 1) * sizeof(int32_t);
  }
};

// One warp replaces counts[1 … n] with their running sums and counts[0] with 0.
SIMT_DEVICE void PrefixSum(int32_t* counts, int n) {
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

// Makes the plan at `shared`. All threads of the block take part.
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
  if (Warp() == 0) PrefixSum(plan.first_items, plan.spans);
  if (Warp() == 1) PrefixSum(plan.first_partials, plan.spans);
  SyncBlock();
  return plan;
}

// One item: the packed rows [first, first + rows) of a kv head and the keys [begin, end).
struct Item {
  Span span;
  int first_page = 0;  // Index of the span's page table in StepRows::pages
  int group = 1;       // Query heads per kv head
  int kv_head = 0;
  int tile_rows = 0;  // 16, 32 or 64
  int first = 0;      // The first packed row
  int rows = 0;       // Packed rows in use, at most tile_rows
  int chunk = 0;
  int chunks = 0;
  int begin = 0;        // The first key, a multiple of kTileKeys
  int end = 0;          // If end <= begin, no row sees any of the chunk's keys.
  int plain_begin = 0;  // All rows see all keys in [plain_begin, plain_end): no mask is needed.
  int plain_end = 0;
  int counter = 0;  // Index of the tile's counter of finished chunks
  int partial = 0;  // The row of scratch where the tile's partial results begin

  // The row of the span that packed row `first + i` belongs to. Past the end: the last row.
  [[nodiscard]] SIMT_DEVICE int RowOf(int i) const { return (first + Min(i, rows - 1)) / group; }
  [[nodiscard]] SIMT_DEVICE int HeadOf(int i) const {
    return kv_head * group + (first + Min(i, rows - 1)) % group;
  }
  [[nodiscard]] SIMT_DEVICE bool Masked(int first_key) const {
    return first_key < plain_begin || first_key + kTileKeys > plain_end;
  }
};

// Narrows the item to the keys inside the windows of its rows. The windows hide all keys below
// `begin` and some keys below `plain_begin`.
SIMT_DEVICE void NarrowToWindows(const AttentionArgs& args, Item& item) {
  if (args.window <= 0) return;
  const int last_row = item.RowOf(item.rows - 1);
  int lowest = args.rows.positions[item.span.first_row + item.RowOf(0)], highest = lowest;
  for (int i = item.RowOf(0) + Lane(); i <= last_row; i += kWarp) {
    const int position = args.rows.positions[item.span.first_row + i];
    lowest = Min(lowest, position);
    highest = Max(highest, position);
  }
  SIMT_UNROLL
  for (int step = kWarp / 2; step > 0; step /= 2) {
    lowest = Min(lowest, ShuffleXor(lowest, step));
    highest = Max(highest, ShuffleXor(highest, step));
  }
  // A key's index equals its position only for cached tokens. Rows of a tree may have any position,
  // so SeenKeys counts them.
  const int seen = Min(FirstSeen(args, lowest), item.span.cached);
  item.begin = Max(item.begin, seen / kTileKeys * kTileKeys);
  item.plain_begin = FirstSeen(args, highest);
}

// Item `index` of the plan. All lanes of one warp take part. Items with the same kv head and chunk
// are consecutive, so that their keys and values are read from the L2 cache.
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

// The partial results of chunk `chunk` of the item's tile: [rows, 4], then [rows, D].
SIMT_DEVICE float* PartialAt(const AttentionArgs& args, const Item& item, int chunk) {
  float* begin = reinterpret_cast<float*>(static_cast<char*>(args.scratch) + kCounterBytes);
  return begin +
         static_cast<int64_t>(item.partial + chunk * item.rows) * (args.cache.head_dim + kRowExtra);
}

// A mask of the lowest n bits.
SIMT_DEVICE uint64_t LowBits(int n) {
  return n <= 0 ? 0 : n >= 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1;
}

// Returns 64 bits of `words`, starting at bit `at`. Bits past the end are 0. REQUIRES: at >= 0.
SIMT_DEVICE uint64_t BitsFrom(const uint64_t* words, int count, int at) {
  const int word = at / 64, shift = at % 64;
  uint64_t bits = word < count ? words[word] >> shift : 0;
  if (shift > 0 && word + 1 < count) bits |= words[word + 1] << (64 - shift);
  return bits;
}

// Like SeenKeys, but ignores the window.
SIMT_DEVICE uint64_t SeenWithoutWindow(const StepRows& rows, const Span& span, int row,
                                       int first_key) {
  const int own = first_key - span.cached;  // The row of the tree that has this key; may be < 0.
  if (span.mask == RowMask::kCausal) return LowBits(row + 1 - own);
  if (span.mask == RowMask::kFull) return LowBits(span.rows - own);
  const int tree_rows = span.earlier + span.rows;
  const uint64_t* words = rows.ancestors + static_cast<int64_t>(span.first_row + row) * rows.words;
  if (own >= 0) return BitsFrom(words, rows.words, own) & LowBits(tree_rows - own);
  if (own <= -64) return ~uint64_t{0};
  return (BitsFrom(words, rows.words, 0) & LowBits(tree_rows)) << -own | LowBits(-own);
}

// Returns a bit mask of the keys [first_key, first_key + 64) that row `row` of the span sees.
SIMT_DEVICE uint64_t SeenKeys(const AttentionArgs& args, const Span& span, int row, int first_key) {
  uint64_t seen = SeenWithoutWindow(args.rows, span, row, first_key);
  if (args.window <= 0) return seen;
  // The position of the row's first visible key.
  const int first = args.rows.positions[span.first_row + row] - args.window + 1;
  if (span.mask != RowMask::kAncestors) return seen & ~LowBits(first - first_key);
  seen &= ~LowBits(Min(first, span.cached) - first_key);
  // The rows of the tree that a row sees have consecutive positions, from `cached` on.
  const uint64_t* words =
      args.rows.ancestors + static_cast<int64_t>(span.first_row + row) * args.rows.words;
  int hidden = first - span.cached;  // How many of them are before the window.
  SIMT_ROLL
  for (int word = 0; hidden > 0 && word < args.rows.words; ++word) {
    SIMT_ROLL
    for (uint64_t bits = words[word]; hidden > 0 && bits != 0; bits &= bits - 1, --hidden) {
      const int key = span.cached + 64 * word + LowestBit(bits) - first_key;
      if (key >= 0 && key < 64) seen &= ~(uint64_t{1} << key);
    }
  }
  return seen;
}

}  // namespace bastion::kernels::cuda::attention

#endif  // BASTION_KERNELS_CUDA_ATTENTION_ATTENTION_PLAN_H_
