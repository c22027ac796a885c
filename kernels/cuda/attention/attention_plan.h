// The plan of GPU attention: how the attention of a step is divided, and which keys a row sees.
//
// A row's bits depend on its own keys alone, never on the other rows of the step. So a row of a
// tree gets the bits that plain decoding of its path gives it:
//
//   1. The keys of a row are numbered by position. Key tiles are 64 keys, from multiples of 64.
//      Chunks are some tiles; where they begin depends on the position only (ChunkBegin).
//   2. Within a chunk, an online softmax takes one tile after the other. The scores of a tile, its
//      largest one and the sums of weighted values have a fixed order of additions. Keys that a row
//      does not see have the weight 0, and change nothing.
//   3. The chunks are merged one after the other, in ascending order (Merge).
//
// Keys below the last tile of a span's cached tokens are the same for all of its rows: its prefix.
// attention.cu multiplies the prefix by many rows at once; attention_tail.cu adds each row's own
// last keys, gathered in the order of positions. Sinks are one more chunk of a row, merged before
// all others; attention_tail.cu adds them too.
#ifndef BASTION_KERNELS_CUDA_ATTENTION_ATTENTION_PLAN_H_
#define BASTION_KERNELS_CUDA_ATTENTION_ATTENTION_PLAN_H_

#include "kernels/cuda/ops.h"
#include "kernels/cuda/simt/simt.h"
#include "kernels/cuda/simt/warpgroup.h"

namespace bastion::kernels::cuda::attention {

using namespace simt;

inline constexpr int kThreads = 128;  // Threads of a block: four warps.
inline constexpr int kTileKeys = 64;  // Keys of a key tile, which a block loads at once.
inline constexpr int kWarpRows = 16;  // Packed rows per warp: the rows of its matrix instructions.

// Chunks: 8 of 128 keys, 8 of 256, …, and from the sixth size on all of 4,096. So a chunk is about
// an eighth of the keys before it: the chunks of a long context keep all multiprocessors busy, and
// there are few to merge.
inline constexpr int kFirstChunk = 128;
inline constexpr int kChunksPerSize = 8;
inline constexpr int kChunkSizes = 6;

// The first key of chunks of size number `size`.
SIMT_ANYWHERE constexpr int SizeBegin(int size) {
  return kChunksPerSize * kFirstChunk * ((1 << size) - 1);
}
SIMT_ANYWHERE constexpr int ChunkBegin(int chunk) {
  const int size = chunk < kChunksPerSize * kChunkSizes ? chunk / kChunksPerSize : kChunkSizes - 1;
  return SizeBegin(size) + (chunk - kChunksPerSize * size) * (kFirstChunk << size);
}
// The chunk of key `key`.
SIMT_ANYWHERE constexpr int ChunkOf(int key) {
  int size = 0;
  while (size + 1 < kChunkSizes && key >= SizeBegin(size + 1)) ++size;
  return kChunksPerSize * size + (key - SizeBegin(size)) / (kFirstChunk << size);
}
SIMT_ANYWHERE constexpr bool IsChunkBegin(int key) { return ChunkBegin(ChunkOf(key)) == key; }

// Warpgroups of a block that multiply the prefixes (attention_warpgroup.cu), each 64 packed rows.
// 0: attention.cu does, because the sums of wider heads would not fit into registers. With many
// rows, two warpgroups read keys and values from the L2 cache once instead of twice.
inline constexpr int kWarpgroupRows = 64;
inline constexpr int kMaxWarpgroupDim = 128;
[[nodiscard]] inline int WarpgroupsFor(const AttentionArgs& args) {
  const int group = args.query_heads / args.cache.kv_heads;
  const int packed = args.rows.row_capacity * group;
  if (!HasWarpgroups(args.capability) || args.cache.head_dim > kMaxWarpgroupDim) return 0;
  return packed <= 2 * kWarpgroupRows ? 1 : 2;
}

// Rows of a step whose chunks are computed by different blocks. The sums of these chunks need
// scratch; there are enough blocks without them if a step has more rows.
inline constexpr int kSplitRows = 128;

// How the prefix of a span is divided. The bits do not depend on it.
enum class Division : int32_t {
  kChunks,  // A block takes one chunk, and stores its sums.
  kFolded,  // A block takes all chunks. It stores the merged ones, and the last if it is
            // unfinished.
  kDirect,  // Causal spans of many rows: a block takes all keys of its rows and stores the output.
};

// One span of the step (StepRows).
struct Span {
  int index = 0;
  int first_row = 0;
  int rows = 0;
  int cached = 0;
  int earlier = 0;  // Rows of the same tree that are already in the cache.
  RowMask mask = RowMask::kCausal;

  [[nodiscard]] SIMT_DEVICE int length() const { return cached + earlier + rows; }
  // The keys below this one are the same for all rows.
  [[nodiscard]] SIMT_DEVICE int prefix() const { return cached / kTileKeys * kTileKeys; }
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

// The span that `row` belongs to. REQUIRES: `row` is in use.
SIMT_DEVICE int SpanIndexOf(const StepRows& rows, int row) {
  int b = 0;
  for (int above = rows.used[1]; above - b > 1;) {
    const int middle = (b + above) / 2;
    (rows.first_rows[middle] <= row ? b : above) = middle;
  }
  return b;
}

SIMT_DEVICE int GroupOf(const AttentionArgs& args) {
  return args.query_heads / args.cache.kv_heads;
}

// The first key that a row at `position` sees, sinks aside.
SIMT_DEVICE int FirstSeen(const AttentionArgs& args, int position) {
  return args.window > 0 ? Max(position - args.window + 1, args.sinks) : 0;
}
// The bits of the rows of the tree that row `row` of the span sees.
SIMT_DEVICE const uint64_t* AncestorsOf(const StepRows& rows, const Span& span, int row) {
  return rows.ancestors + static_cast<int64_t>(span.first_row + row) * rows.words;
}
// The number of keys up to the last one that row `row` of the span sees.
SIMT_DEVICE int KeysOf(const StepRows& rows, const Span& span, int row) {
  if (span.mask == RowMask::kFull) return span.length();
  if (span.mask == RowMask::kCausal) return span.cached + row + 1;
  const uint64_t* words = AncestorsOf(rows, span, row);
  int keys = span.cached;
  for (int word = 0; word < rows.words; ++word) {
    keys += PopCount(static_cast<uint32_t>(words[word]));
    keys += PopCount(static_cast<uint32_t>(words[word] >> 32));
  }
  return keys;
}

// The index of the `number`-th set bit of `words`. REQUIRES: there is one.
SIMT_DEVICE int SetBit(const uint64_t* words, int number) {
  for (int word = 0;; ++word) {
    const uint64_t bits = words[word];
    const auto low = static_cast<uint32_t>(bits), high = static_cast<uint32_t>(bits >> 32);
    const int in_low = PopCount(low), in_word = in_low + PopCount(high);
    if (number >= in_word) {
      number -= in_word;
      continue;
    }
    uint32_t left = number < in_low ? low : high;
    const int begin = 64 * word + (number < in_low ? 0 : 32);
    for (int skip = number < in_low ? number : number - in_low; skip > 0; --skip) left &= left - 1;
    return begin + LowestBit(left);
  }
}

// The token of the sequence that is key `key` of row `row` of the span. REQUIRES: key <
// KeysOf(row).
SIMT_DEVICE int TokenOf(const AttentionArgs& args, const Span& span, int row, int key) {
  if (key < span.cached || span.mask != RowMask::kAncestors) return key;
  return span.cached + SetBit(AncestorsOf(args.rows, span, row), key - span.cached);
}

// How a span is divided, for each kv head.
struct Cut {
  Division division = Division::kChunks;
  int packed = 0;       // Number of packed rows: rows x group.
  int tile_rows = 0;    // Packed rows per tile: 16, 32, 64 or 128.
  int tiles = 0;        // Number of tiles of rows.
  int begin = 0;        // The first key, a multiple of kTileKeys.
  int end = 0;          // The end of the prefix, or of the span's keys with kDirect.
  int first_chunk = 0;  // With kChunks: the first of the chunks.
  int chunks = 0;       // With kChunks: their number. Else 1, or 0 if there are no keys.

  [[nodiscard]] SIMT_DEVICE int items(int kv_heads) const { return kv_heads * tiles * chunks; }
};

// `max_tile_rows`: 64; 16 if heads are too large for more rows (Ring::kMaxRows); 128 for two
// warpgroups.
SIMT_DEVICE Cut CutSpan(const AttentionArgs& args, const Span& span, int max_tile_rows) {
  Cut cut;
  cut.packed = span.rows * GroupOf(args);
  cut.tile_rows = kWarpRows;
  while (cut.tile_rows < Min(cut.packed, max_tile_rows)) cut.tile_rows *= 2;
  cut.tiles = (cut.packed + cut.tile_rows - 1) / cut.tile_rows;
  // The other kernel adds the sinks.
  const bool direct = span.mask == RowMask::kCausal && cut.packed > 64 && args.sinks == 0;
  cut.division = direct                                     ? Division::kDirect
                 : span.first_row + span.rows <= kSplitRows ? Division::kChunks
                                                            : Division::kFolded;
  // No row has a lower position than the token after the cached ones.
  cut.begin = FirstSeen(args, span.cached) / kTileKeys * kTileKeys;
  cut.end = direct ? span.length() : span.prefix();
  cut.chunks = cut.end > cut.begin ? 1 : 0;
  if (cut.division == Division::kChunks && cut.chunks > 0) {
    cut.first_chunk = ChunkOf(cut.begin);
    cut.chunks = ChunkOf(cut.end - 1) - cut.first_chunk + 1;
  }
  return cut;
}

// The items of a step, in shared memory. Span b has the items [first_items[b], first_items[b + 1]).
struct Plan {
  int32_t* first_items = nullptr;  // [B + 1]
  int spans = 0;                   // Spans in use

  [[nodiscard]] SIMT_DEVICE int items() const { return first_items[spans]; }
  [[nodiscard]] static size_t Bytes(int span_capacity) {
    return (static_cast<size_t>(span_capacity) + 1) * sizeof(int32_t);
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
SIMT_DEVICE Plan MakePlan(const AttentionArgs& args, int max_tile_rows, char* shared) {
  Plan plan;
  plan.first_items = reinterpret_cast<int32_t*>(shared);
  plan.spans = args.rows.used[1];
  for (int b = ThreadIndex(); b < plan.spans; b += BlockThreads()) {
    plan.first_items[b + 1] =
        CutSpan(args, SpanAt(args, b), max_tile_rows).items(args.cache.kv_heads);
  }
  SyncBlock();
  if (Warp() == 0) PrefixSum(plan.first_items, plan.spans);
  SyncBlock();
  return plan;
}

// One item: the packed rows [first, first + rows) of a kv head and the keys [begin, end). The query
// heads that share a kv head are rows of one matrix: packed row p of a span is its row p / group,
// with head p % group of the kv head's group.
struct Item {
  Span span;
  Division division = Division::kChunks;
  int first_page = 0;  // Index of the span's page table in StepRows::pages
  int group = 1;       // Query heads per kv head
  int kv_head = 0;
  int tile_rows = 0;  // 16, 32, 64 or 128
  int first = 0;      // The first packed row
  int rows = 0;       // Packed rows in use, at most tile_rows
  int chunk = 0;      // With kChunks.
  int begin = 0;      // The first key, a multiple of kTileKeys
  int end = 0;
  int plain_begin = 0;  // All rows see all keys in [plain_begin, plain_end): no mask is needed.
  int plain_end = 0;

  // The row of the span that packed row `first + i` belongs to. Past the end: the last row.
  [[nodiscard]] SIMT_DEVICE int RowOf(int i) const { return (first + Min(i, rows - 1)) / group; }
  [[nodiscard]] SIMT_DEVICE int HeadOf(int i) const {
    return kv_head * group + (first + Min(i, rows - 1)) % group;
  }
  [[nodiscard]] SIMT_DEVICE bool Masked(int first_key) const {
    return first_key < plain_begin || first_key + kTileKeys > plain_end;
  }
};

// Sets the keys that all rows of the item see. The rows of a causal span have consecutive
// positions; those of a tree may be in any order.
SIMT_DEVICE void SetPlainKeys(const AttentionArgs& args, Item& item) {
  item.plain_begin = 0;
  item.plain_end = item.end;
  if (item.division == Division::kDirect) {
    const int lowest = item.span.cached + item.RowOf(0);
    item.begin = FirstSeen(args, lowest) / kTileKeys * kTileKeys;
    item.end = item.span.cached + item.RowOf(item.rows - 1) + 1;
    item.plain_end = lowest + 1;
  }
  if (args.window <= 0) return;
  int highest = 0;
  for (int i = item.RowOf(0) + Lane(); i <= item.RowOf(item.rows - 1); i += kWarp) {
    highest = Max(highest, args.rows.positions[item.span.first_row + i]);
  }
  SIMT_UNROLL
  for (int step = kWarp / 2; step > 0; step /= 2) highest = Max(highest, ShuffleXor(highest, step));
  item.plain_begin = FirstSeen(args, highest);
}

// The items of a block in turn. Every multiprocessor gets one item, then every one another, in
// reverse order, and so on: with large items first (ItemAt), all get about as many keys.
// REQUIRES: the grid has the same number of blocks for each multiprocessor.
class BlockItems {
 public:
  SIMT_DEVICE explicit BlockItems(int multiprocessors)
      : width_(multiprocessors),
        column_(Block().x % multiprocessors),
        row_(Block().x / multiprocessors),
        rows_(Blocks().x / multiprocessors) {}

  [[nodiscard]] SIMT_DEVICE int index() const {
    return row_ * width_ + (row_ % 2 == 0 ? column_ : width_ - 1 - column_);
  }
  SIMT_DEVICE void Advance() { row_ += rows_; }

 private:
  int width_, column_, row_, rows_;
};

// Item `index` of the plan. All lanes of one warp take part. The items of a span with the most keys
// come first. Chunks' items with the same kv head and chunk are consecutive, so that their keys and
// values are read from the L2 cache.
SIMT_DEVICE Item ItemAt(const AttentionArgs& args, const Plan& plan, int max_tile_rows, int index) {
  int b = 0;
  for (int above = plan.spans; above - b > 1;) {
    const int middle = (b + above) / 2;
    (plan.first_items[middle] <= index ? b : above) = middle;
  }
  Item item;
  item.span = SpanAt(args, b);
  const Cut cut = CutSpan(args, item.span, max_tile_rows);
  const int place = index - plan.first_items[b], heads = args.cache.kv_heads;
  const bool direct = cut.division == Division::kDirect;  // Later tiles have more keys.
  const int tile = direct ? cut.tiles - 1 - place / heads : place % cut.tiles;
  item.division = cut.division;
  item.first_page = args.rows.first_pages[b];
  item.group = GroupOf(args);
  item.tile_rows = cut.tile_rows;
  item.first = tile * cut.tile_rows;
  item.rows = Min(cut.tile_rows, cut.packed - item.first);
  item.kv_head = (direct ? place : place / cut.tiles) % heads;
  item.begin = cut.begin;
  item.end = cut.end;
  if (cut.division == Division::kChunks) {
    item.chunk = cut.first_chunk + cut.chunks - 1 - place / cut.tiles / heads;
    item.begin = Max(cut.begin, ChunkBegin(item.chunk));
    item.end = Min(cut.end, ChunkBegin(item.chunk + 1));
  }
  SetPlainKeys(args, item);
  return item;
}

// The sums of a chunk, or of several merged ones, of one row and head.
struct Partial {
  float* sums;    // [D] of weighted values
  float* weight;  // [2]: the largest score, in powers of two, and the sum of weights
};

// Where the scratch has the sums of chunk `chunk` of packed row `first + i` of the item. With
// kFolded, chunk 0 is the merged chunks, and chunk 1 the unfinished one.
SIMT_DEVICE Partial PartialAt(const AttentionArgs& args, const Item& item, int chunk, int i) {
  const int64_t head =
      static_cast<int64_t>(item.span.first_row + item.RowOf(i)) * args.query_heads + item.HeadOf(i);
  const int split_rows = Min(args.rows.row_capacity, kSplitRows);
  const int64_t split = static_cast<int64_t>(args.max_chunks) * split_rows;
  const int64_t all = split + int64_t{2} * args.rows.row_capacity;
  const int64_t first = item.division == Division::kChunks
                            ? static_cast<int64_t>(chunk) * split_rows
                            : split + static_cast<int64_t>(chunk) * args.rows.row_capacity;
  const int64_t at = first * args.query_heads + head;
  float* weights = static_cast<float*>(args.scratch);
  return {weights + 2 * all * args.query_heads + at * args.cache.head_dim, weights + 2 * at};
}

// A mask of the lowest n bits.
SIMT_DEVICE uint64_t LowBits(int n) {
  return n <= 0 ? 0 : n >= 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1;
}

// Returns a bit mask of the keys [first_key, first_key + 64) that row `row` of the span sees.
SIMT_DEVICE uint64_t SeenKeys(const AttentionArgs& args, const Span& span, int row, int first_key) {
  const uint64_t seen = LowBits(KeysOf(args.rows, span, row) - first_key);
  if (args.window <= 0) return seen;
  return seen & ~LowBits(FirstSeen(args, args.rows.positions[span.first_row + row]) - first_key);
}

}  // namespace bastion::kernels::cuda::attention

#endif  // BASTION_KERNELS_CUDA_ATTENTION_ATTENTION_PLAN_H_
