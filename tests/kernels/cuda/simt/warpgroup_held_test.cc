// Tests products of warpgroups whose left operand is in registers, in the emulator.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/cuda/simt/emulator.h"
#include "kernels/cuda/simt/warpgroup.h"
#include "kernels/ops/types.h"
#include "tests/kernels/kernel_test_support.h"

namespace bastion::kernels::cuda {
namespace {

using namespace simt;  // The names that kernels use.

constexpr int kSide = 64;  // Rows and columns of every matrix here.
constexpr uint32_t kTileBarrier = kSide * 128;

enum class Misuse { kNone, kReusesRegisters };

struct HeldArgs {
  const uint16_t* x = nullptr;  // [64, 64]
  TensorMap y;                  // [64, 64]
  bool transposed = false;      // x · y instead of x · yᵀ.
  int cleared = kSide;          // Rows of y from this one on become zeros in shared memory.
  Misuse misuse = Misuse::kNone;
  float* out = nullptr;  // [64, 64]
};

SIMT_DEVICE void LoadHeld(const uint16_t* x, uint32_t (&held)[4][4]) {
  for (int part = 0; part < 4; ++part) {
    for (int i = 0; i < 4; ++i) {
      const int row = Warp() * 16 + Lane() / 4 + i % 2 * 8;
      const int column = part * 16 + i / 2 * 8 + Lane() % 4 * 2;
      const uint16_t* const from = x + row * kSide + column;
      held[part][i] = uint32_t{from[1]} << 16 | from[0];
    }
  }
}

SIMT_KERNEL(kWarpgroup, 1)
void HeldKernel(HeldArgs args) {
  if (ThreadIndex() == 0) {
    InitBarrier(kTileBarrier, 1);
    PublishBarriers();
    ArriveAndExpect(kTileBarrier, kSide * 128);
    CopyTile(0, args.y, kTileBarrier, {0, 0});
  }
  SyncBlock();
  uint32_t held[4][4];
  LoadHeld(args.x, held);
  WaitForPhase(kTileBarrier, 0);
  for (int at = args.cleared * 128 + ThreadIndex() * 16; at < kSide * 128; at += kWarpgroup * 16) {
    StoreBytes16(DynamicShared() + at, Bytes16{});
  }
  PublishStores();
  float sums[8][4] = {};
  StartProducts();
  for (int part = 0; part < 4; ++part) {
    if (args.transposed) {
      WarpgroupMultiplyAdd(sums, held[part], Part(TransposedAt(0), part));
    } else {
      WarpgroupMultiplyAdd(sums, held[part], Part(OperandAt(0), part));
    }
  }
  EndProducts();
  if (args.misuse == Misuse::kReusesRegisters) held[3][0] = 0x7FFF7FFFu;
  WaitProducts<0>();
  for (int i = 0; i < 32; ++i) {
    const int row = Warp() * 16 + Lane() / 4 + i % 4 / 2 * 8;
    args.out[row * kSide + i / 4 * 8 + Lane() % 4 * 2 + i % 2] = sums[i / 4][i % 4];
  }
}

class HeldProductTest : public testing::Test {
 protected:
  ~HeldProductTest() override { emulator::SetSchedule(0); }

  void Run(bool transposed, int cleared, Misuse misuse) {
    const TensorMap y = MakeTensorMap({y_.data(), 2, {kSide, kSide}, {0, 2 * kSide}, {64, 64}});
    const HeldArgs args = {x_.data(), y, transposed, cleared, misuse, out_.data()};
    emulator::Run({{1}, kWarpgroup, kTileBarrier + kBarrierBytes}, [&] { HeldKernel(args); });
  }
  void ExpectProduct(bool transposed, int cleared) {
    for (int row = 0; row < kSide; ++row) {
      for (int column = 0; column < kSide; ++column) {
        double sum = 0;
        for (int k = 0; k < kSide; ++k) {
          const int y_row = transposed ? k : column, y_column = transposed ? column : k;
          if (y_row >= cleared) continue;
          sum +=
              double{Bf16ToFloat(x_[row * kSide + k])} * Bf16ToFloat(y_[y_row * kSide + y_column]);
        }
        ASSERT_NEAR(out_[row * kSide + column], sum, 1e-4) << "row " << row << ", " << column;
      }
    }
  }

  const std::vector<uint16_t> x_ = kernels::ToBf16(RandomFloats(kSide * kSide, 1));
  const std::vector<uint16_t> y_ = kernels::ToBf16(RandomFloats(kSide * kSide, 2));
  std::vector<float> out_ = std::vector<float>(kSide * kSide);
};

TEST_F(HeldProductTest, MultipliesRowsAndColumnsOfATileUnderEverySchedule) {
  for (const uint32_t seed : {0, 1, 2, 3}) {
    emulator::SetSchedule(seed);
    for (const bool transposed : {false, true}) {
      Run(transposed, kSide, Misuse::kNone);
      ExpectProduct(transposed, kSide);
    }
  }
}

TEST_F(HeldProductTest, MultipliesWhatTheThreadsHaveStored) {
  for (const uint32_t seed : {0, 1, 2, 3}) {
    emulator::SetSchedule(seed);
    Run(true, 37, Misuse::kNone);
    ExpectProduct(true, 37);
  }
}

TEST_F(HeldProductTest, RegistersThatChangeEarlyShowInTheResult) {
  Run(true, kSide, Misuse::kReusesRegisters);
  EXPECT_TRUE(std::isnan(out_[0]));
}

}  // namespace
}  // namespace bastion::kernels::cuda
