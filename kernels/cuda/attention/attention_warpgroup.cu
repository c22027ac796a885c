// The prefixes of attention.cu with the instructions of sm_90a: a warp copies keys and values, and
// warpgroups multiply them. They give the bits of attention.cu's kernel on the same GPU.
#include "kernels/cuda/attention/attention_launch.h"
#include "kernels/cuda/attention/attention_warpgroup.h"

namespace bastion::kernels::cuda::attention {
namespace {

template <typename S>
SIMT_DEVICE void Multiply(const AttentionArgs& args, const Plan& plan,
                          const BlockMemory<S>& memory) {
  Consumer<S> consumer(args, memory);
  Turn place;
  SIMT_ROLL
  for (BlockItems items(args.multiprocessors); items.index() < plan.items(); items.Advance()) {
    WaitForPhase(memory.Announced(place.slot), place.parity);
    consumer.Run(memory.item(place.slot));
    SyncWarp();
    if (Lane() == 0) Arrive(memory.Taken(place.slot));
    place.Advance(BlockMemory<S>::kItems);
  }
}

template <typename S>
SIMT_KERNEL(S::kThreads, S::kBlocks)
void WarpgroupPrefixKernel(SIMT_TENSOR_ARGS WarpgroupAttention work) {
  if constexpr (SIMT_WARPGROUPS) {
    LetNextKernelStart();
    const BlockMemory<S> memory;
    if (ThreadIndex() == 0) memory.InitializeBarriers();
    // The rows and the pages of a step do not change while it runs.
    const Plan plan = MakePlan(work.args, S::kMaxRows, memory.plan());
    if (Warp() < 4 * S::kWarpgroups) {
      TakeRegisters<S::kSumRegisters>();
      Multiply<S>(work.args, plan, memory);
    } else {
      GiveRegisters<S::kCopyRegisters>();
      if (Warp() == 4 * S::kWarpgroups) Producer<S>(work, memory).Run(plan);
    }
    WaitForEarlierKernels();  // Those that had nothing to do.
  }
}

// The cache as rows of one head of one token. A tile is a page's, 64 columns wide. The page table
// names pages of the cache only, so the map has more rows than any cache.
TensorMap MapOf(const KvLayer& cache, const void* base) {
  constexpr int64_t kRows = int64_t{1} << 30;
  return MakeTensorMap(
      {base, 2, {cache.head_dim, kRows}, {0, 2 * int64_t{cache.head_dim}}, {64, kPageTokens}});
}

template <int D, int warpgroups>
void LaunchBlocks(const AttentionArgs& args, Stream& stream) {
  using S = Shape<D, warpgroups>;
  static_assert(BlockMemory<S>::kBytes <= 224 * 1024 / S::kBlocks, "the blocks must fit");
  const WarpgroupAttention work = {args, MapOf(args.cache, args.cache.keys),
                                   MapOf(args.cache, args.cache.values)};
  const size_t shared = BlockMemory<S>::kBytes + Plan::Bytes(args.rows.span_capacity);
  simt::Launch(stream, WarpgroupPrefixKernel<S>,
               {{args.multiprocessors * S::kBlocks}, S::kThreads, shared}, work);
}

template <int D>
void LaunchDim(const AttentionArgs& args, Stream& stream) {
  return WarpgroupsFor(args) == 1 ? LaunchBlocks<D, 1>(args, stream)
                                  : LaunchBlocks<D, 2>(args, stream);
}

}  // namespace

void LaunchWarpgroupPrefix(const AttentionArgs& args, Stream& stream) {
  return args.cache.head_dim <= 64 ? LaunchDim<64>(args, stream) : LaunchDim<128>(args, stream);
}

}  // namespace bastion::kernels::cuda::attention
