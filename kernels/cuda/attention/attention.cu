// Attention over a paged KV cache for rows that form trees, chains or blocks. One launch serves all
// sequences of a step: it splits the keys into chunks and merges the chunks in the same kernel. The
// prefix needs no mask.
//
// Block i processes the plan's items i, i + blocks, … (attention_plan.h). The keys and values of an
// item stream through a ring in shared memory (attention_tile.h). If the keys for a tile of rows
// are split into chunks, the block that finishes last merges the chunks in a fixed order, so the
// result does not depend on which block that is.
#include "common/base/check.h"
#include "kernels/cuda/attention/attention_merge.h"
#include "kernels/cuda/attention/attention_plan.h"
#include "kernels/cuda/attention/attention_tile.h"

namespace bastion::kernels::cuda {
namespace attention {
namespace {

// Blocks per multiprocessor. Registers and the shared memory of sm_90 permit no more.
constexpr int kBlocks = 2;
constexpr float kLog2E = 1.4426950408889634f;

// One block processes one item with a tile of 64 / kSplit rows.
template <int D, int kSplit>
SIMT_DEVICE void Attend(const AttentionArgs& args, const Item& item, char* ring) {
  constexpr int kKeys = kTileKeys / kSplit, kSlots = Ring<D>::kSlots;
  const int first_row = Warp() / kSplit * kWarpRows, first_key = Warp() % kSplit * kKeys;
  const uint32_t slots = SharedAddress(ring);
  Query<D>::Start(args, item, slots);
  Loader<D> loader(args, item, slots);
  SIMT_ROLL
  for (int i = 0; i < kSlots - 1; ++i) loader.Next();
  const Query<D> query(args, item, slots, first_row);
  Sums<D> sums;
  sums.Clear();
  const bool active = first_row < item.rows;
  const float scale = args.scale * kLog2E;
  int slot = 0;
  // Waits until the oldest load has finished and all threads see its data. Starts a load into the
  // slot that the previous call returned, and returns the address of the loaded key tile.
  const auto next_tile = [&] {
    WaitCopies<kSlots - 2>();
    SyncBlock();
    loader.Next();
    const uint32_t tile = slots + slot * Ring<D>::kSlotBytes;
    slot = slot + 1 < kSlots ? slot + 1 : 0;
    return tile;
  };
  SIMT_ROLL
  for (int begin = item.begin; begin < item.end; begin += kTileKeys) {
    float scores[kKeys / 8][4];
    const uint32_t keys = next_tile();
    if (active) {
      Score<D, kKeys>(query, keys, first_key, scores);
      if (item.Masked(begin)) {
        SIMT_UNROLL
        for (int half = 0; half < 2; ++half) {
          const int row = item.RowOf(first_row + Lane() / 4 + 8 * half);
          Hide<kKeys>(SeenKeys(args, item.span, row, begin) >> first_key, half, scores);
        }
      }
      Weigh<D, kKeys>(scale, scores, sums);
    }
    const uint32_t values = next_tile();
    if (active) AddValues<D, kKeys>(scores, values, first_key, sums.output);
  }
  WaitCopies<0>();
  SyncBlock();
  const BlockSums<D> block_sums(ring);
  if (active) block_sums.Put(sums);
  SyncBlock();
  StoreResults<D, kSplit>(args, item, block_sums);
}

// Block-wide state in shared memory, between the ring and the plan. It is not kept in registers,
// because they are scarce.
struct alignas(16) BlockState {
  Item item;
  int32_t last = 0;  // 1 if this block finished the last chunk of a tile.
};

// Attention for heads of up to D elements. MergeChunks keeps its weights in the ring's memory.
template <int D>
SIMT_KERNEL(kThreads, kBlocks)
void AttentionKernel(AttentionArgs args) {
  static_assert(kMaxItemsOfOneTile * kMaxTileRows * sizeof(float) <= Ring<D>::kBytes);
  char* ring = DynamicShared();
  auto* state = reinterpret_cast<BlockState*>(ring + Ring<D>::kBytes);
  const Plan plan = MakePlan(args, ring + Ring<D>::kBytes + sizeof(BlockState));
  SIMT_ROLL
  for (int i = Block().x; i < plan.items(); i += Blocks().x) {
    if (Warp() == 0) {
      const Item found = ItemAt(args, plan, i);
      if (Lane() == 0) state->item = found;
    }
    SyncBlock();
    const Item& item = state->item;
    if (item.tile_rows == kWarpRows) {
      Attend<D, 4>(args, item, ring);
    } else if (item.tile_rows == 2 * kWarpRows) {
      Attend<D, 2>(args, item, ring);
    } else {
      Attend<D, 1>(args, item, ring);
    }
    if (item.chunks > 1 && LastToArrive(args, item, &state->last)) {
      MergeChunks(args, item, reinterpret_cast<float*>(ring));
    }
    SyncBlock();  // The next iteration overwrites the ring and the item.
  }
}

template <int D>
void LaunchTiles(const AttentionArgs& args, Stream& stream) {
  const size_t shared = Ring<D>::kBytes + sizeof(BlockState) + Plan::Bytes(args.rows.span_capacity);
  Launch(stream, AttentionKernel<D>, {{args.multiprocessors * kBlocks}, kThreads, shared}, args);
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

// The sums of one (row, head) in the fp32 kernel, which is a reference for tests. One warp computes
// them: each lane scores one key of 32, then each lane adds up some columns of the values.
struct ExactRow {
  static constexpr int kColumns = 8;  // Columns per lane, so head_dim <= 256.

  float output[kColumns] = {0, 0, 0, 0, 0, 0, 0, 0};
  float peak = -Infinity();
  float weight = 0;
};

// Offset of key `key` of a span in the layer's keys, and of its value in the values, in elements.
SIMT_DEVICE int64_t KeyOffset(const AttentionArgs& args, const Span& span, int key, int kv_head) {
  const int page = args.rows.pages[args.rows.first_pages[span.index] + key / kPageTokens];
  const int64_t head = static_cast<int64_t>(page) * args.cache.kv_heads + kv_head;
  return (head * kPageTokens + key % kPageTokens) * args.cache.head_dim;
}

// Adds 32 keys and their values to `sums`. Lane l has the key at `offset`; bit l of `seen` says
// whether the row sees it.
SIMT_DEVICE void AddKeys(const AttentionArgs& args, const float* query, uint32_t seen,
                         int64_t offset, ExactRow& sums) {
  const int head_dim = args.cache.head_dim;
  float score = -Infinity();
  if ((seen >> Lane() & 1) != 0) {
    const float* key = static_cast<const float*>(args.cache.keys) + offset;
    score = 0;
    for (int d = 0; d < head_dim; ++d) score += query[d] * key[d];
    score *= args.scale;
  }
  const float peak = Max(sums.peak, WarpMax(score)), shrink = Exp(sums.peak - peak);
  const float weight = Exp(score - peak);
  sums.peak = peak;
  sums.weight = sums.weight * shrink + WarpSum(weight);
  for (float& value : sums.output) value *= shrink;
  for (; seen != 0; seen &= seen - 1) {
    const int lane = LowestBit(seen);
    const float factor = Shuffle(weight, lane);
    const float* value = static_cast<const float*>(args.cache.values) + Shuffle(offset, lane);
    SIMT_UNROLL
    for (int c = 0; c < ExactRow::kColumns; ++c) {
      const int d = Lane() + c * kWarp;
      if (d < head_dim) sums.output[c] += factor * value[d];
    }
  }
}

SIMT_KERNEL(kThreads, 1)
void ExactKernel(AttentionArgs args) {
  const int task = Block().x * BlockWarps() + Warp(), head_dim = args.cache.head_dim;
  const int row = task / args.query_heads, head = task % args.query_heads;
  if (row >= args.rows.used[0]) return;
  const Span span = SpanAt(args, SpanIndexOf(args.rows, row));
  const int64_t at = static_cast<int64_t>(task) * head_dim;
  const float* query = static_cast<const float*>(args.query) + at;
  ExactRow sums;
  for (int begin = 0; begin < span.length(); begin += kWarp) {
    const auto seen = static_cast<uint32_t>(SeenKeys(args, span, row - span.first_row, begin));
    if (seen == 0) continue;
    const int key = Min(begin + Lane(), span.length() - 1);
    AddKeys(args, query, seen, KeyOffset(args, span, key, head / GroupOf(args)), sums);
  }
  float* output = static_cast<float*>(args.output) + at;
  SIMT_UNROLL
  for (int c = 0; c < ExactRow::kColumns; ++c) {
    const int d = Lane() + c * kWarp;
    if (d < head_dim) output[d] = sums.weight > 0 ? sums.output[c] / sums.weight : 0.0f;
  }
}

}  // namespace
}  // namespace attention

bool AttentionSupports(int query_heads, int kv_heads, int head_dim) {
  return kv_heads > 0 && query_heads % kv_heads == 0 && head_dim > 0 && head_dim <= 256 &&
         head_dim % 8 == 0;
}

void Attention(const AttentionArgs& args, Stream& stream) {
  using namespace attention;
  const int head_dim = args.cache.head_dim;
  CHECK(AttentionSupports(args.query_heads, args.cache.kv_heads, head_dim))
      << "unsupported attention shape: " << args.query_heads << " query heads, "
      << args.cache.kv_heads << " kv heads, head_dim " << head_dim;
  if (args.cache.dtype == DType::kF32) {
    const int warps = kThreads / kWarp, tasks = args.rows.row_capacity * args.query_heads;
    simt::Launch(stream, ExactKernel, {{(tasks + warps - 1) / warps}, kThreads}, args);
  } else if (head_dim <= 64) {
    LaunchTiles<64>(args, stream);
  } else if (head_dim <= 128) {
    LaunchTiles<128>(args, stream);
  } else {
    LaunchTiles<256>(args, stream);
  }
}

size_t AttentionScratchBytes(int row_capacity, int span_capacity, int query_heads, int kv_heads,
                             int head_dim) {
  using namespace attention;
  const size_t rows = row_capacity, spans = span_capacity, heads = query_heads;
  CHECK_LE(TilesBound(rows, spans, heads, kv_heads), size_t{kMaxTiles})
      << "too many attention tiles in one step";
  const size_t partial_rows = PartialRowsBound(rows, spans, heads / kv_heads);
  return kCounterBytes + partial_rows * (head_dim + kRowExtra) * sizeof(float);
}

}  // namespace bastion::kernels::cuda
