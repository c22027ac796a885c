// The last keys of each row: those from the last whole tile of its span's cached tokens on, in the
// order of positions. A block takes one row and one kv head. It continues the chunk that the prefix
// left unfinished, merges all chunks, and stores the output. Sinks come before all of this.
#include "kernels/cuda/attention/attention_launch.h"
#include "kernels/cuda/attention/attention_merge.h"

namespace bastion::kernels::cuda::attention {
namespace {

// Blocks per multiprocessor, for heads of up to D elements.
template <int D>
struct Occupancy {
  static constexpr int kBlocks = D > 128 ? 2 : 3;
};
constexpr int kSplit = 4;  // The four warps share the rows: the heads of the group.
constexpr int kBatch = 4;  // Chunks that are loaded at once.

// The lane's sums of some chunks, from scratch.
template <int D>
struct LoadedChunks {
  using Sums = ChunkSums<D, kSplit>;
  Sums chunks[kBatch];

  SIMT_DEVICE void Load(const AttentionArgs& args, const Item& item, int first, int count) {
    SIMT_UNROLL
    for (int k = 0; k < kBatch; ++k) {
      chunks[k].Clear();
      if (k >= count) continue;
      ForRows<kSplit>(item, [&](int row, int half) {
        const Partial partial = PartialAt(args, item, first + k, row);
        chunks[k].peak[half] = partial.weight[0];
        chunks[k].weight[2 * half] = partial.weight[1];
        ForColumns<D, kSplit>(args, [&](int n, int column) {
          chunks[k].output[n][2 * half] = partial.sums[column];
          chunks[k].output[n][2 * half + 1] = partial.sums[column + 1];
        });
      });
    }
  }
};

// Merges the finished chunks [first, end) of the prefix.
template <int D>
SIMT_DEVICE void AddPartials(const AttentionArgs& args, const Item& item, int first, int end,
                             Totals<D, kSplit>& totals) {
  SIMT_ROLL
  for (; first < end; first += kBatch) {
    LoadedChunks<D> loaded;
    loaded.Load(args, item, first, end - first);
    SIMT_UNROLL
    for (int k = 0; k < kBatch; ++k) {
      if (first + k < end) totals.Add(loaded.chunks[k]);
    }
  }
}

// Reads what the other kernel stored. Returns in `sums` the chunk that is unfinished.
template <int D>
SIMT_DEVICE void TakePrefix(const AttentionArgs& args, const Item& item, const Cut& cut,
                            Totals<D, kSplit>& totals, ChunkSums<D, kSplit>& sums) {
  sums.Clear();
  if (cut.chunks == 0) return;
  const bool unfinished = !IsChunkBegin(cut.end);
  const bool folded = cut.division == Division::kFolded;
  const int last = folded ? 1 : cut.first_chunk + cut.chunks - 1;
  AddPartials<D>(args, item, folded ? 0 : cut.first_chunk, last + (unfinished || folded ? 0 : 1),
                 totals);
  if (!unfinished) return;
  LoadedChunks<D> loaded;
  loaded.Load(args, item, last, 1);
  sums = loaded.chunks[0];
}

// The keys and values of a tile, gathered: place i of it is key `begin` + i of the row.
template <int D>
struct Gather {
  const AttentionArgs& args;
  const Item& item;
  int32_t* tokens;  // [64] shared memory: rows of [pages, G, 16, D]
  uint32_t slots;   // Those for keys and for values.

  // Starts the copies. All threads of the block take part.
  SIMT_DEVICE void Start(int row, int begin, int count) const {
    const int i = ThreadIndex();
    if (i < count) {
      const int token = TokenOf(args, item.span, row, begin + i);
      const int page = args.rows.pages[item.first_page + token / kPageTokens];
      tokens[i] = (page * args.cache.kv_heads + item.kv_head) * kPageTokens + token % kPageTokens;
    }
    SyncBlock();
    Copy(static_cast<const uint16_t*>(args.cache.keys), slots, count);
    Copy(static_cast<const uint16_t*>(args.cache.values), slots + Ring<D>::kSlotBytes, count);
  }

 private:
  // Whole groups of 16 places. Those past `count` become zeros.
  SIMT_DEVICE void Copy(const uint16_t* from, uint32_t to, int count) const {
    constexpr int kPieces = D / 8;
    const int piece = ThreadIndex() % kPieces;
    const int end = (count + 15) / 16 * 16;
    for (int i = ThreadIndex() / kPieces; i < end; i += kThreads / kPieces) {
      const bool valid = i < count && piece * 8 < args.cache.head_dim;
      const int64_t at =
          valid ? static_cast<int64_t>(tokens[i]) * args.cache.head_dim + piece * 8 : 0;
      CopyAsync16(to + Ring<D>::Place(i, piece), from + at, valid);
    }
    CommitCopies();
  }
};

// The item of a block: the heads of a group, up to 16, of one row.
SIMT_DEVICE Item RowItem(const AttentionArgs& args, const Span& span, const Cut& cut, int row) {
  Item item;
  item.span = span;
  item.division = cut.division;
  item.first_page = args.rows.first_pages[span.index];
  item.group = GroupOf(args);
  item.kv_head = Block().y % args.cache.kv_heads;
  item.tile_rows = kWarpRows;
  const int first_head = Block().y / args.cache.kv_heads * kWarpRows;
  item.first = row * item.group + first_head;
  item.rows = Min(item.group - first_head, kWarpRows);
  return item;
}

// Some keys of a row, up to one tile: those from key `begin` on. Bit i of `seen` says whether the
// row sees key begin + i.
struct Places {
  int row = 0;
  int begin = 0;
  int count = 0;
  uint64_t seen = 0;
};

// Adds them to the sums.
template <int D>
SIMT_DEVICE void AddPlaces(const Gather<D>& gather, const Places& places,
                           const TileInput<D, kSplit>& query, ChunkSums<D, kSplit>& sums) {
  gather.Start(places.row, places.begin, places.count);
  WaitCopies<1>();
  SyncBlock();
  const auto hide = [&](auto& scores) {
    SIMT_UNROLL
    for (int half = 0; half < 2; ++half) {
      Hide<kTileKeys / kSplit>(places.seen >> (Warp() * (kTileKeys / kSplit)), half, scores);
    }
  };
  const auto values = [&] {
    WaitCopies<0>();
    SyncBlock();
    return gather.slots + Ring<D>::kSlotBytes;
  };
  TileInput<D, kSplit> input = query;
  input.steps = (places.count + 15) / 16;
  AddTile<D, kSplit>(input, gather.slots, hide, values, sums);
  SyncBlock();  // The next tile overwrites the slots.
}

// Adds the sinks that the row sees, as a chunk.
template <int D>
SIMT_DEVICE void AddSinks(const Gather<D>& gather, int row, const Layout<D, 2>& memory,
                          Totals<D, kSplit>& totals) {
  const AttentionArgs& args = gather.args;
  Query<D>::Start(args, gather.item, args.sink_query, memory.queries());
  const Query<D> query(args, gather.item, args.sink_query, memory.queries(), 0);
  const TileInput<D, kSplit> input = {gather.item, query, Exchange<kSplit>(memory.exchange()),
                                      args.scale * kLog2E};
  ChunkSums<D, kSplit> sums;
  sums.Clear();
  const int keys = Min(args.sinks, KeysOf(args.rows, gather.item.span, row));
  SIMT_ROLL
  for (int tile = 0; tile < keys; tile += kTileKeys) {
    const int count = Min(keys - tile, kTileKeys);
    AddPlaces<D>(gather, {row, tile, count, LowBits(count)}, input, sums);
  }
  totals.Add(sums);
}

// Adds the keys of the row that the prefix lacks to the sums, and the finished chunks to the
// totals.
template <int D>
SIMT_DEVICE void AddTail(const Gather<D>& gather, int row, const TileInput<D, kSplit>& query,
                         Totals<D, kSplit>& totals, ChunkSums<D, kSplit>& sums) {
  const AttentionArgs& args = gather.args;
  const Span& span = gather.item.span;
  const int keys = KeysOf(args.rows, span, row);
  const int first = FirstSeen(args, args.rows.positions[span.first_row + row]);
  const int begin = Max(span.prefix(), first / kTileKeys * kTileKeys);
  SIMT_ROLL
  for (int tile = begin; tile < keys; tile += kTileKeys) {
    const int count = Min(keys - tile, kTileKeys);
    if (tile > begin && IsChunkBegin(tile)) {
      totals.Add(sums);
      sums.Clear();
    }
    AddPlaces<D>(gather, {row, tile, count, LowBits(count) & ~LowBits(first - tile)}, query, sums);
  }
}

template <int D, bool kSinks>
SIMT_KERNEL(kThreads, Occupancy<D>::kBlocks)
void TailKernel(AttentionArgs args) {
  BeginKernel();
  const int row = Block().x;
  if (row >= args.rows.used[0]) return;
  const Span span = SpanAt(args, SpanIndexOf(args.rows, row));
  const Cut cut = CutSpan(args, span, Ring<D>::kMaxRows);
  if (cut.division == Division::kDirect) return;
  const int own = row - span.first_row;
  const Item item = RowItem(args, span, cut, own);
  const Layout<D, 2> memory = {DynamicShared()};
  const Gather<D> gather = {
      args, item, reinterpret_cast<int32_t*>(memory.begin + Layout<D, 2>::kBytes), memory.ring()};
  Totals<D, kSplit> totals(memory.totals());
  totals.Clear();
  if (kSinks) AddSinks<D>(gather, own, memory, totals);
  Query<D>::Start(args, item, args.query, memory.queries());
  const Query<D> query(args, item, args.query, memory.queries(), 0);
  ChunkSums<D, kSplit> sums;
  TakePrefix<D>(args, item, cut, totals, sums);
  const TileInput<D, kSplit> input = {item, query, Exchange<kSplit>(memory.exchange()),
                                      args.scale * kLog2E};
  AddTail<D>(gather, own, input, totals, sums);
  if (kSinks) {  // A row among the sinks may have no other keys, and its queries are never read.
    CommitCopies();
    WaitCopies<0>();
  }
  totals.Add(sums);
  StoreOutput<D, kSplit>(args, item, totals);
}

template <int D>
void Launch(const AttentionArgs& args, Stream& stream) {
  const int group = args.query_heads / args.cache.kv_heads;
  const int tiles = (group + kWarpRows - 1) / kWarpRows;
  const size_t shared = Layout<D, 2>::kBytes + kTileKeys * sizeof(int32_t);
  const LaunchShape shape = {
      {args.rows.row_capacity, args.cache.kv_heads * tiles}, kThreads, shared};
  if (args.sinks > 0) {
    simt::Launch(stream, TailKernel<D, true>, shape, args);
  } else {
    simt::Launch(stream, TailKernel<D, false>, shape, args);
  }
}

}  // namespace

void LaunchTail(const AttentionArgs& args, Stream& stream) {
  if (args.cache.head_dim <= 64) return Launch<64>(args, stream);
  if (args.cache.head_dim <= 128) return Launch<128>(args, stream);
  Launch<256>(args, stream);
}

}  // namespace bastion::kernels::cuda::attention
