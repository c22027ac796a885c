#include "common/base/check.h"
#include "kernels/cuda/product/add_ranges.h"
#include "kernels/cuda/product/int8_rows.h"
#include "kernels/cuda/product/product.h"
#include "kernels/cuda/product/product_steps.h"
#include "kernels/cuda/product/product_store.h"
#include "kernels/cuda/product/warpgroup_product.h"

namespace bastion::kernels::cuda {
namespace product {
namespace {

constexpr int kAddThreads = 256;

// `adds`: a block adds all ranges of its tiles.
template <typename T, bool adds>
SIMT_KERNEL(T::kThreads, 1)
void ProductKernel(Work work) {
  LetNextKernelStart();
  const Share share = ShareOf(work, T::kTokens);
  Steps<T> steps(work, share);
  SIMT_ROLL
  for (int tile = share.tile; tile < work.tiles; tile += work.plan.groups) {
    const RowScales<T> scales(work.args, 0, tile);
    WarpSums<T> total;
    SIMT_ROLL
    for (int range = 0; range < (adds ? work.plan.ranges : 1); ++range) {
      WarpSums<T> sums;
      sums.Clear();
      steps.Multiply(adds ? work.range_steps : share.steps, sums);
      scales.Apply(sums);
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
  WaitCopies<0>();
}

SIMT_KERNEL(kAddThreads, 1)
void AddSumsKernel(AddSumsArgs args) {
  BeginKernel();
  const int64_t i = static_cast<int64_t>(Block().x) * BlockThreads() + ThreadIndex();
  if (i >= args.count) return;
  const float sum = AddRanges(args.sums, i);
  args.y[i] = args.accumulate ? args.y[i] + sum : sum;
}

template <typename T, bool adds>
void LaunchTile(const Work& work, Stream& stream) {
  const int parts = work.plan.split ? work.plan.ranges : 1;
  const int row_tiles = (work.args.rows + T::kTokens - 1) / T::kTokens;
  const LaunchShape shape = {{row_tiles, work.plan.groups * parts}, T::kThreads, work.plan.shared};
  Launch(stream, ProductKernel<T, adds>, shape, work);
}

template <int wide, int weight_size>
void LaunchTokens(const Work& work, Stream& stream) {
  switch (work.plan.tile_columns) {
    case 64:
      return LaunchTile<Tile<1, 4, wide, weight_size>, false>(work, stream);
    case 128:
      return LaunchTile<Tile<1, 8, wide, weight_size>, false>(work, stream);
    default:
      return LaunchTile<Tile<2, 6, wide, weight_size>, false>(work, stream);
  }
}

template <int weight_size>
void LaunchWork(const Work& work, Stream& stream) {
  if (work.plan.ranges > 1 && !work.plan.split) {
    return LaunchTile<Tile<1, 8, 16, weight_size>, true>(work, stream);
  }
  WithTokens(work.plan.tile_tokens,
             [&](auto wide) { LaunchTokens<wide, weight_size>(work, stream); });
}

}  // namespace
}  // namespace product

Sums Product(const ProductArgs& args, const ProductPlan& plan, Stream& stream) {
  CHECK(ProductSupports(args.depth)) << "a depth of " << args.depth << " is not a multiple of 8";
  product::Work work = {args, plan};
  const bool gated = args.activation != nullptr;
  const int outputs = args.outputs > 0 ? args.outputs : args.columns;
  const int width = gated ? args.columns : outputs;
  work.tiles = (width + plan.tile_columns - 1) / plan.tile_columns;
  work.range_steps = (args.depth / plan.ranges + product::kStep - 1) / product::kStep;
  if (plan.warpgroups) {
    product::LaunchWarpgroups(work, stream);
  } else if (args.scales != nullptr) {
    work.pitch = Int8Pitch(args.depth);
    product::LaunchWork<1>(work, stream);
  } else {
    work.pitch = 2 * args.depth;
    product::LaunchWork<2>(work, stream);
  }
  if (!plan.split) return {};
  return {args.y, plan.ranges, static_cast<int64_t>(args.rows) * outputs};
}

void AddSums(const AddSumsArgs& args, Stream& stream) {
  const auto blocks =
      static_cast<int>((args.count + product::kAddThreads - 1) / product::kAddThreads);
  simt::Launch(stream, product::AddSumsKernel, {{blocks}, product::kAddThreads}, args);
}

}  // namespace bastion::kernels::cuda
