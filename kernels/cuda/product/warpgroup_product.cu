#include "kernels/cuda/product/product_store.h"
#include "kernels/cuda/product/warpgroup_product.h"
#include "kernels/cuda/product/warpgroup_ring.h"

namespace bastion::kernels::cuda::product {
namespace {

// `adds`: a block adds all ranges of its tiles.
template <typename T, bool adds>
SIMT_KERNEL(T::kThreads + kWarp, 1)
void WarpgroupKernel(SIMT_TENSOR_ARGS WarpgroupWork args) {
  if constexpr (SIMT_WARPGROUPS) {
    LetNextKernelStart();
    const Work& work = args.work;
    const Share share = ShareOf(work, T::kTokens);
    const Ring<T> ring(work.plan.stages);
    if (ThreadIndex() == 0) ring.Initialize();
    SyncBlock();
    if (Warp() == T::kWarps) {
      if (Lane() == 0) Producer<T>(args, share, ring).Run();
      WaitForEarlierKernels();
      return;
    }
    WaitForEarlierKernels();  // They may still read y.
    Consumer<T> consumer(ring);
    SIMT_ROLL
    for (int tile = share.tile; tile < work.tiles; tile += work.plan.groups) {
      WarpSums<T> total;
      SIMT_ROLL
      for (int range = 0; range < (adds ? work.plan.ranges : 1); ++range) {
        WarpSums<T> sums;
        sums.Clear();
        consumer.Multiply(adds ? work.range_steps : share.steps, sums);
        if (!adds || range == 0) {
          total = sums;
        } else {
          total.Add(sums);
        }
      }
      if (work.args.activation != nullptr) {
        StoreGated<T>(work, share, tile, total);
      } else {
        Store<T>(work, share, tile, total);
      }
    }
  }
}

TensorMap MapOfWeights(const Work& work) {
  const ProductArgs& args = work.args;
  const int64_t row = 2 * int64_t{args.depth};
  if (args.activation == nullptr) {
    const int rows = args.outputs > 0 ? args.outputs : args.columns;
    return MakeTensorMap(
        {args.weight, 2, {args.depth, rows}, {0, row}, {kStep, work.plan.tile_columns}});
  }
  // 8 rows of the first half, then their 8 rows of the second, and so on.
  const int64_t width = args.columns / 2;
  return MakeTensorMap({args.weight,
                        4,
                        {args.depth, 8, 2, width / 8},
                        {0, row, width * row, 8 * row},
                        {kStep, 8, 2, work.plan.tile_columns / 16}});
}

template <typename T, bool adds>
void LaunchTile(const WarpgroupWork& args, Stream& stream) {
  const ProductPlan& plan = args.work.plan;
  const int row_tiles = (args.work.args.rows + T::kTokens - 1) / T::kTokens;
  const int groups = plan.groups * (plan.split ? plan.ranges : 1);
  simt::Launch(stream, WarpgroupKernel<T, adds>,
               {{row_tiles, groups}, T::kThreads + kWarp, plan.shared}, args);
}

template <int wide>
void LaunchTokens(const WarpgroupWork& args, Stream& stream) {
  switch (args.work.plan.tile_columns) {
    case 64:
      return LaunchTile<Tile<1, 4, wide>, false>(args, stream);
    case 128:
      return LaunchTile<Tile<1, 8, wide>, false>(args, stream);
    default:
      return LaunchTile<Tile<1, 12, wide>, false>(args, stream);
  }
}

}  // namespace

void LaunchWarpgroups(const Work& work, Stream& stream) {
  const ProductArgs& args = work.args;
  const WarpgroupWork launched = {work, MapOfWeights(work),
                                  MakeTensorMap({args.x,
                                                 2,
                                                 {args.depth, args.rows},
                                                 {0, 2 * int64_t{args.depth}},
                                                 {kStep, work.plan.tile_tokens}})};
  if (work.plan.ranges > 1 && !work.plan.split) {
    return LaunchTile<Tile<1, 8, 16>, true>(launched, stream);
  }
  WithTokens(work.plan.tile_tokens, [&](auto wide) { LaunchTokens<wide>(launched, stream); });
}

}  // namespace bastion::kernels::cuda::product
