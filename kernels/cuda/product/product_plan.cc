#include <algorithm>
#include <limits>

#include "kernels/cuda/product/product.h"
#include "kernels/cuda/product/product_tile.h"
#include "kernels/cuda/simt/warpgroup.h"

namespace bastion::kernels::cuda {
namespace {

using product::Quotient;

constexpr int kMaxRanges = 8;
constexpr int kMaxWarpgroupStages = 12;
// A matrix with this many rows has work for every multiprocessor without ranges.
constexpr int kManyColumns = 16384;

// Tiles of W. A gated tile has rows of both halves.
int TilesOf(const ProductArgs& args, int tile_columns) {
  if (args.activation != nullptr) return Quotient(args.columns / 2, tile_columns / 2);
  return Quotient(args.outputs > 0 ? args.outputs : args.columns, tile_columns);
}

// The tile that takes the least time: rows of W per multiprocessor, in full waves.
int TileColumns(const ProductArgs& args, int ranges, int multiprocessors) {
  int best = 0, least = std::numeric_limits<int>::max();
  for (const int columns : {192, 128, 64}) {
    const int cost = Quotient(TilesOf(args, columns) * ranges, multiprocessors) * columns;
    if (cost >= least) continue;
    best = columns;
    least = cost;
  }
  return best;
}

// How many steps of a block's `steps` are in the ring, and what shared memory that takes. A ring of
// warpgroups has two barriers for each stage.
void PlanRing(int steps, int weight_size, const DeviceInfo& device, ProductPlan& plan) {
  size_t stage = product::StageBytes(plan.tile_columns, plan.tile_tokens, weight_size), rest = 0;
  int most = product::kMaxStages;
  if (plan.warpgroups) {
    stage += 2 * kBarrierBytes;
    rest = kTileAlignment;
    most = kMaxWarpgroupStages;
  }
  plan.stages = std::clamp(static_cast<int>((device.shared_bytes - rest) / stage), 2,
                           std::clamp(steps + 1, 2, most));
  // Two blocks must never fit on a multiprocessor. Otherwise blocks that start early, while the
  // kernel before is still running, double up on the multiprocessors that are free first.
  plan.shared = std::max(plan.stages * stage + rest, device.shared_bytes / 2);
}

// A tile of gated weights is copied in boxes of 8 rows of each half. Warpgroups multiply bf16 from
// shared memory, so they cannot turn int8 into bf16 on the way.
bool WarpgroupsSupport(const ProductArgs& args) {
  return args.scales == nullptr && (args.activation == nullptr || args.columns % 16 == 0);
}

}  // namespace

int ProductRanges(int columns, int depth, bool gated) {
  if (gated || columns >= kManyColumns) return 1;
  int ranges = 1;
  while (ranges < kMaxRanges && columns * ranges < kManyColumns &&
         depth % (2 * ranges * product::kStep) == 0) {
    ranges *= 2;
  }
  return ranges;
}

bool ProductSupports(int depth) { return depth % 8 == 0; }

// columns · ranges < 2 kManyColumns, because the ranges double only below kManyColumns.
size_t MaxProductSums() { return size_t{2} * kManyColumns * kMaxTokens; }

ProductPlan PlanProduct(const ProductArgs& args, const DeviceInfo& device) {
  ProductPlan plan;
  plan.ranges = ProductRanges(args.columns, args.depth, args.activation != nullptr);
  const bool few = args.rows <= kMaxTokens;
  plan.split = few && plan.ranges > 1;
  plan.tile_tokens = 8;
  while (plan.tile_tokens < std::min(args.rows, kMaxTokens)) plan.tile_tokens *= 2;
  const int parts = plan.split ? plan.ranges : 1;
  plan.tile_columns = few ? TileColumns(args, parts, device.multiprocessors) : 128;
  const int tiles = TilesOf(args, plan.tile_columns);
  const int turns = Quotient(tiles, std::max(1, device.multiprocessors / parts));
  plan.groups = few ? Quotient(tiles, turns) : tiles;

  plan.warpgroups = HasWarpgroups(device.capability) && WarpgroupsSupport(args);
  const int weight_size = args.scales != nullptr ? 1 : 2;
  PlanRing(turns * Quotient(args.depth, parts * product::kStep), weight_size, device, plan);
  return plan;
}

}  // namespace bastion::kernels::cuda
