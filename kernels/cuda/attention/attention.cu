// Attention over a paged KV cache for rows that form trees, chains or blocks, in two kernels: this
// one for the prefixes of all sequences of a step, which need no mask, and attention_tail.cu.
//
// A block processes some of the plan's items (attention_plan.h). The keys and values of an item
// stream through a ring in shared memory (attention_tile.h).
#include "common/base/check.h"
#include "kernels/cuda/attention/attention_launch.h"
#include "kernels/cuda/attention/attention_merge.h"

namespace bastion::kernels::cuda {
namespace attention {
namespace {

// Blocks per multiprocessor. Registers and the shared memory of sm_90 permit no more.
constexpr int kBlocks = 2;

// The attention of one item with a tile of 64 / kSplit rows.
template <int D, int kSplit>
SIMT_DEVICE void Attend(const AttentionArgs& args, const Item& item, const Layout<D>& memory) {
  constexpr int kSlots = Ring<D>::kSlots;
  const int first_row = Warp() / kSplit * kWarpRows;
  const uint32_t slots = memory.ring();
  Query<D>::Start(args, item, args.query, memory.queries());
  Loader<D> loader(args, item, slots);
  SIMT_ROLL
  for (int i = 0; i < kSlots - 1; ++i) loader.Next();
  const Query<D> query(args, item, args.query, memory.queries(), first_row);
  ChunkSums<D, kSplit> sums;
  sums.Clear();
  Totals<D, kSplit> totals(memory.totals());
  if (item.division != Division::kChunks) totals.Clear();
  // Waits until the oldest load has finished and all threads see its data. Starts a load into the
  // slot that the previous call returned, and returns the address of the loaded keys or values.
  const auto next = [&] {
    const int slot = (loader.load + 1) % kSlots;
    WaitCopies<kSlots - 2>();
    SyncBlock();
    loader.Next();
    return slots + slot * Ring<D>::kSlotBytes;
  };
  const TileInput<D, kSplit> input = {item, query, Exchange<kSplit>(memory.exchange()),
                                      args.scale * kLog2E};
  SIMT_ROLL
  for (int begin = item.begin; begin < item.end; begin += kTileKeys) {
    if (begin > item.begin && IsChunkBegin(begin)) {
      totals.Add(sums);
      sums.Clear();
    }
    const auto hide = [&](auto& scores) { HideUnseen<kSplit>(args, item, begin, scores); };
    AddTile<D, kSplit>(input, next(), hide, next, sums);
  }
  WaitCopies<0>();
  StoreItem<D, kSplit>(args, item, totals, sums);
}

// Attention for heads of up to D elements.
template <int D>
SIMT_KERNEL(kThreads, kBlocks)
void PrefixKernel(AttentionArgs args) {
  LetNextKernelStart();
  constexpr int kMaxRows = Ring<D>::kMaxRows;
  const Layout<D> memory = {DynamicShared()};
  auto* item = reinterpret_cast<Item*>(memory.begin + Layout<D>::kBytes);
  // The rows of a step do not change while it runs.
  const Plan plan = MakePlan(args, kMaxRows, memory.begin + Layout<D>::kBytes + sizeof(Item));
  WaitForEarlierKernels();
  SIMT_ROLL
  for (BlockItems items(args.multiprocessors); items.index() < plan.items(); items.Advance()) {
    if (Warp() == 0) {
      const Item found = ItemAt(args, plan, kMaxRows, items.index());
      if (Lane() == 0) *item = found;
    }
    SyncBlock();
    if (kMaxRows == kWarpRows || item->tile_rows == kWarpRows) {
      Attend<D, 4>(args, *item, memory);
    } else if constexpr (kMaxRows > kWarpRows) {
      if (item->tile_rows == 2 * kWarpRows) {
        Attend<D, 2>(args, *item, memory);
      } else {
        Attend<D, 1>(args, *item, memory);
      }
    }
    SyncBlock();  // The next iteration overwrites the ring and the item.
  }
}

template <int D>
void LaunchPrefix(const AttentionArgs& args, Stream& stream) {
  static_assert(Layout<D>::kBytes <= 98 * 1024, "a block must fit on sm_86, and two on sm_90");
  const size_t shared = Layout<D>::kBytes + sizeof(Item) + Plan::Bytes(args.rows.span_capacity);
  Launch(stream, PrefixKernel<D>, {{args.multiprocessors * kBlocks}, kThreads, shared}, args);
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
  CHECK(args.sinks == 0 || (args.window > 0 && args.sink_query != nullptr));
  if (args.cache.dtype == DType::kF32) return LaunchExact(args, stream);
  if (WarpgroupsFor(args) > 0) {
    LaunchWarpgroupPrefix(args, stream);
  } else if (head_dim <= 64) {
    LaunchPrefix<64>(args, stream);
  } else if (head_dim <= 128) {
    LaunchPrefix<128>(args, stream);
  } else {
    LaunchPrefix<256>(args, stream);
  }
  LaunchTail(args, stream);
}

int AttentionChunks(int tokens) { return attention::ChunkOf(tokens) + 1; }

size_t AttentionScratchBytes(int row_capacity, int query_heads, int head_dim, int max_chunks) {
  const size_t split_rows =
      row_capacity < attention::kSplitRows ? row_capacity : attention::kSplitRows;
  const size_t rows = max_chunks * split_rows + size_t{2} * row_capacity;
  return rows * query_heads * (head_dim + 2) * sizeof(float);
}

}  // namespace bastion::kernels::cuda
