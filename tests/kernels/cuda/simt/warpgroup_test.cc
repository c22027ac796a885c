// Tests the primitives of sm_90a in the emulator: they compute what a GPU does, and a tile that is
// read or released at the wrong time shows in the result.
#include "kernels/cuda/simt/warpgroup.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/cuda/simt/emulator.h"
#include "kernels/ops/types.h"
#include "tests/kernels/kernel_test_support.h"

namespace bastion::kernels::cuda {
namespace {

using namespace simt;  // The names that kernels use.

constexpr int kColumns = 64, kTileRows = 64 + 16;
constexpr uint32_t kTokens = 64 * 128, kBarrier = kTileRows * 128, kOtherBarrier = kBarrier + 8;
constexpr size_t kShared = kOtherBarrier + 8;

enum class Fault { kNone, kReadsEarly, kReleasesEarly };

// The first thread of the last warp copies a tile of w and one of x, and later overwrites them. The
// warpgroup multiplies them.
struct TileArgs {
  TensorMap w, x;
  int row = 0;  // Where the tile of w begins.
  Fault fault = Fault::kNone;
  float* out = nullptr;        // [64, 16], the product.
  uint16_t* copied = nullptr;  // [64 + 16, 64], the tiles as they are in shared memory.
};

SIMT_DEVICE void CopyTiles(const TileArgs& args) {
  ArriveAndExpect(kBarrier, kTileRows * 128);
  CopyTileOnce(0, args.w, kBarrier, Corner2{0, args.row});
  CopyTile(kTokens, args.x, kBarrier, {0, 0});
}

SIMT_KERNEL(kWarpgroup + kWarp, 1)
void TileKernel(TileArgs args) {
  if (ThreadIndex() == 0) {
    InitBarrier(kBarrier, 1);
    InitBarrier(kOtherBarrier, 1);
    PublishBarriers();
  }
  SyncBlock();
  if (ThreadIndex() == kWarpgroup) {
    CopyTiles(args);
    WaitForPhase(kOtherBarrier, 0);
    CopyTiles(args);
  }
  if (ThreadIndex() >= kWarpgroup) return;
  if (args.fault != Fault::kReadsEarly) WaitForPhase(kBarrier, 0);
  for (int i = ThreadIndex(); i < kTileRows * kColumns; i += kWarpgroup) {
    std::memcpy(&args.copied[i], DynamicShared() + 2 * i, 2);
  }
  if (args.fault == Fault::kReadsEarly) WaitForPhase(kBarrier, 0);
  float sums[2][4] = {};
  StartProducts();
  for (int part = 0; part < kColumns / 16; ++part) {
    WarpgroupMultiplyAdd(sums, Part(OperandAt(0), part), Part(OperandAt(kTokens), part));
  }
  EndProducts();
  if (args.fault == Fault::kReleasesEarly) {
    if (ThreadIndex() == 0) Arrive(kOtherBarrier);
    emulator::WaitUntil([] { return *reinterpret_cast<uint16_t*>(DynamicShared()) == 0xFFFF; });
  }
  WaitProducts<0>();
  if (args.fault != Fault::kReleasesEarly && ThreadIndex() == 0) Arrive(kOtherBarrier);
  for (int i = 0; i < 8; ++i) {
    const int row = Warp() * 16 + Lane() / 4 + i % 4 / 2 * 8;
    args.out[row * 16 + i / 4 * 8 + Lane() % 4 * 2 + i % 2] = sums[i / 4][i % 4];
  }
}

class WarpgroupTest : public testing::Test {
 protected:
  static constexpr int kRows = 70;  // The tile that begins at row 20 goes beyond them.

  ~WarpgroupTest() override { emulator::SetSchedule(0); }

  void Run(int row, Fault fault) {
    const auto map = [](const std::vector<uint16_t>& values, int rows, int box) {
      return MakeTensorMap({values.data(), 2, {kColumns, rows}, {0, 2 * kColumns}, {64, box}});
    };
    const TileArgs args = {map(w_, kRows, 64), map(x_, 16, 16), row, fault,
                           out_.data(),        copied_.data()};
    emulator::Run({{1}, kWarpgroup + kWarp, kShared}, [&] { TileKernel(args); });
  }
  // Element `column` of row `row` of w.
  [[nodiscard]] uint16_t W(int row, int column) const {
    return row < kRows ? w_[row * kColumns + column] : 0;
  }

  const std::vector<uint16_t> w_ = kernels::ToBf16(RandomFloats(kRows * kColumns, 1));
  const std::vector<uint16_t> x_ = kernels::ToBf16(RandomFloats(16 * kColumns, 2));
  std::vector<float> out_ = std::vector<float>(64 * 16);
  std::vector<uint16_t> copied_ = std::vector<uint16_t>(kTileRows * kColumns);
};

TEST_F(WarpgroupTest, ATileHasItsPiecesInTheOrderOfItsRows) {
  for (const int first : {0, 20}) {
    Run(first, Fault::kNone);
    for (int row = 0; row < 64; ++row) {
      for (int column = 0; column < kColumns; ++column) {
        const int piece = column / 8 ^ row % 8;
        ASSERT_EQ(copied_[row * kColumns + piece * 8 + column % 8], W(first + row, column))
            << "row " << row << ", column " << column << " of the tile from row " << first;
      }
    }
  }
}

TEST_F(WarpgroupTest, AWarpgroupMultipliesTilesUnderEverySchedule) {
  for (const uint32_t seed : {0, 1, 2, 3}) {
    emulator::SetSchedule(seed);
    Run(20, Fault::kNone);
    for (int row = 0; row < 64; ++row) {
      for (int token = 0; token < 16; ++token) {
        double sum = 0;
        for (int k = 0; k < kColumns; ++k) {
          sum += double{Bf16ToFloat(W(20 + row, k))} * Bf16ToFloat(x_[token * kColumns + k]);
        }
        ASSERT_NEAR(out_[row * 16 + token], sum, 1e-4) << "row " << row << ", token " << token;
      }
    }
  }
}

TEST_F(WarpgroupTest, ATileThatIsReadEarlyHasNoValues) {
  Run(0, Fault::kReadsEarly);
  EXPECT_TRUE(std::isnan(Bf16ToFloat(copied_[0])));
}

TEST_F(WarpgroupTest, ProductsOfATileThatIsReleasedEarlyHaveNoValues) {
  Run(0, Fault::kReleasesEarly);
  EXPECT_TRUE(std::isnan(out_[0]));
}

struct NoArgs {};

SIMT_KERNEL(kWarp, 1)
void ForeignBarrierKernel(NoArgs /*args*/) { Arrive(64); }

SIMT_KERNEL(kWarp, 1)
void LonelyKernel(NoArgs /*args*/) {
  if (ThreadIndex() != 0) return;
  InitBarrier(0, 1);
  WaitForPhase(0, 0);
}

SIMT_KERNEL(kWarpgroup, 1)
void DividedKernel(NoArgs /*args*/) {
  float sums[1][4] = {};
  StartProducts();
  WarpgroupMultiplyAdd(sums, OperandAt(Warp() == 0 ? 0 : 1024), OperandAt(8192));
}

TEST_F(WarpgroupTest, MisuseOfBarriersAndProductsIsReported) {
  const auto start = [](void (*kernel)(NoArgs), int threads) {
    emulator::Run({{1}, threads, kShared}, [&] { kernel({}); });
  };
  EXPECT_DEATH(start(ForeignBarrierKernel, kWarp), "byte 64 .* is not an initialized barrier");
  EXPECT_DEATH(start(LonelyKernel, kWarp), "deadlock .* 1 wait for a phase");
  EXPECT_DEATH(start(DividedKernel, kWarpgroup), "must start the same products");
}

}  // namespace
}  // namespace bastion::kernels::cuda
