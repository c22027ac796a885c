#include <algorithm>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/product/product.h"
#include "kernels/cuda/simt/warpgroup.h"

namespace bastion::kernels::cuda {
namespace {

DeviceInfo H200() {
  DeviceInfo device;
  device.capability = 90;
  device.multiprocessors = 132;
  device.shared_bytes = size_t{227} << 10;
  return device;
}
DeviceInfo A100() {
  DeviceInfo device;
  device.capability = 80;
  device.multiprocessors = 108;
  device.shared_bytes = size_t{163} << 10;
  return device;
}
DeviceInfo ConsumerGpu() {
  DeviceInfo device;
  device.capability = 120;
  device.multiprocessors = 76;
  device.shared_bytes = size_t{99} << 10;
  return device;
}

ProductArgs Args(int rows, int columns, int depth, bool gated = false) {
  static uint16_t activation;
  ProductArgs args;
  args.rows = rows;
  args.columns = columns;
  args.depth = depth;
  if (gated) args.activation = &activation;
  return args;
}

int Blocks(const ProductPlan& plan) { return plan.groups * (plan.split ? plan.ranges : 1); }

TEST(ProductPlanTest, RangesDependOnTheShapeOfTheMatrixOnly) {
  // The matrices of Qwen3-8B.
  EXPECT_EQ(ProductRanges(6144, 4096, false), 4);
  EXPECT_EQ(ProductRanges(4096, 4096, false), 4);
  EXPECT_EQ(ProductRanges(24576, 4096, true), 1);
  EXPECT_EQ(ProductRanges(4096, 12288, false), 4);
  EXPECT_EQ(ProductRanges(151936, 4096, false), 1);
  EXPECT_EQ(ProductRanges(2560, 9728, false), 8);
  EXPECT_EQ(ProductRanges(576, 576, false), 1) << "576 is an odd number of steps";
}

TEST(ProductPlanTest, OneTokenKeepsAllMultiprocessorsBusyInOneWave) {
  const struct {
    ProductArgs args;
    int tile, blocks;
  } cases[] = {{Args(1, 6144, 4096), 192, 128},
               {Args(1, 4096, 4096), 128, 128},
               {Args(1, 24576, 4096, true), 192, 128},
               {Args(1, 4096, 12288), 128, 128},
               {Args(1, 151936, 4096), 192, 132}};
  for (const auto& [args, tile, blocks] : cases) {
    const ProductPlan plan = PlanProduct(args, H200());
    EXPECT_EQ(plan.tile_columns, tile) << args.columns;
    EXPECT_EQ(Blocks(plan), blocks) << args.columns;
    EXPECT_GE(plan.stages, 6) << args.columns;
  }
}

TEST(ProductPlanTest, EveryPlanFitsIntoItsGpuAlone) {
  for (const DeviceInfo& device : {H200(), A100(), ConsumerGpu()}) {
    for (const int rows : {1, 9, 33, 64, 100, 128, 129, 2000}) {
      for (const auto& [columns, depth] :
           {std::pair{6144, 4096}, {4096, 12288}, {24576, 4096}, {151936, 4096}, {64, 64}}) {
        const ProductPlan plan = PlanProduct(Args(rows, columns, depth), device);
        const size_t ring = size_t(plan.stages) * (plan.tile_columns + plan.tile_tokens) * 64 * 2;
        EXPECT_LE(ring + (plan.warpgroups ? plan.stages * 16 + kTileAlignment : 0), plan.shared);
        EXPECT_EQ(plan.warpgroups, device.capability == 90);
        EXPECT_LE(plan.shared, device.shared_bytes) << rows << " " << columns;
        EXPECT_GE(plan.stages, 2);
        // A multiprocessor has 1 KiB more than a block may use, and reserves 1 KiB for each block.
        EXPECT_GT(2 * (plan.shared + 1024), device.shared_bytes + 1024);
        EXPECT_TRUE(rows > kMaxTokens || Blocks(plan) <= device.multiprocessors);
        EXPECT_EQ(plan.ranges, ProductRanges(columns, depth, false));
      }
    }
  }
}

TEST(ProductPlanTest, ARingOfWarpgroupsHoldsWhatHidesTheMemory) {
  for (const auto& [rows, stages] : {std::pair{1, 8}, {16, 8}, {32, 7}, {64, 6}, {2048, 6}}) {
    EXPECT_GE(PlanProduct(Args(rows, 24576, 4096, true), H200()).stages, stages) << rows;
  }
}

TEST(ProductPlanTest, GatedMatricesOfAnOddWidthHaveNoTilesForWarpgroups) {
  EXPECT_FALSE(PlanProduct(Args(1, 2 * 100, 4096, true), H200()).warpgroups);
  EXPECT_TRUE(PlanProduct(Args(1, 2 * 104, 4096, true), H200()).warpgroups);
}

// The bits depend on the ranges. Tiles of int8 are smaller, so more of them are on the way.
TEST(ProductPlanTest, Int8WeightsHaveTheRangesOfBf16AndNoWarpgroups) {
  const float scale = 1;
  for (const int rows : {1, 16, 64, 2000}) {
    ProductArgs args = Args(rows, 4096, 12288);
    const ProductPlan bf16 = PlanProduct(args, A100());
    args.scales = &scale;
    EXPECT_FALSE(PlanProduct(args, H200()).warpgroups);
    const ProductPlan plan = PlanProduct(args, A100());
    EXPECT_EQ(plan.ranges, bf16.ranges);
    EXPECT_GE(plan.stages, bf16.stages);
    EXPECT_LE(plan.stages * plan.tile_columns * 64 + plan.stages * plan.tile_tokens * 128,
              static_cast<int>(plan.shared));
    EXPECT_LE(plan.shared, A100().shared_bytes);
  }
}

TEST(ProductPlanTest, TheSumsOfEverySplitProductFit) {
  for (int columns = 8; columns < 20'000; columns += 8) {
    const ProductPlan plan = PlanProduct(Args(kMaxTokens, columns, 1 << 14), H200());
    if (!plan.split) continue;
    ASSERT_LE(size_t(plan.ranges) * columns * kMaxTokens, MaxProductSums()) << columns;
  }
}

}  // namespace
}  // namespace bastion::kernels::cuda
