// Tests the emulator: a kernel that is correct on a GPU gives the same results here, and the
// emulator detects races and hangs.
#include "kernels/cuda/simt/emulator.h"

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "kernels/cuda/simt/simt.h"
#include "kernels/ops/types.h"

namespace bastion::kernels::cuda {
namespace {

using namespace simt;  // The names that kernels use.

class EmulatorTest : public testing::Test {
 protected:
  ~EmulatorTest() override { emulator::SetSchedule(0); }

  template <typename Args>
  void Start(void (*kernel)(Args), const LaunchShape& shape, const Args& args) {
    emulator::Run(shape, [&] { kernel(args); });
  }
};

struct Words {
  uint32_t* out = nullptr;
};

// Only the first thread of the block waits for earlier kernels.
SIMT_KERNEL(32, 1)
void HastyKernel(Words /*args*/) {
  if (ThreadIndex() == 0) BeginKernel();
}

TEST(LaunchTest, EveryThreadOfAKernelMustWaitForTheKernelsBeforeIt) {
  const auto stream = *Stream::Create();
  EXPECT_DEATH(Launch(*stream, HastyKernel, {{1}, 32}, Words{}), "BeginKernel");
}

SIMT_KERNEL(64, 1)
void IndexKernel(Words args) {
  const int block = (Block().z * Blocks().y + Block().y) * Blocks().x + Block().x;
  args.out[block * BlockThreads() + ThreadIndex()] += 1000 * block + ThreadIndex();
}

TEST_F(EmulatorTest, EveryThreadOfEveryBlockRunsOnce) {
  for (const uint32_t seed : {0, 1, 2}) {
    emulator::SetSchedule(seed);
    std::vector<uint32_t> out(24 * 64);
    Start(IndexKernel, {{2, 3, 4}, 64}, Words{out.data()});
    for (uint32_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], 1000 * (i / 64) + i % 64);
  }
}

// One thread waits at a different barrier than all other threads.
SIMT_KERNEL(64, 1)
void DivergedBarrierKernel(Words /*args*/) {
  if (ThreadIndex() == 40) {
    SyncWarp();
  } else {
    SyncBlock();
  }
}

SIMT_KERNEL(64, 1)
void EarlyExitWarpKernel(Words args) {
  if (ThreadIndex() == 3) return;
  args.out[ThreadIndex()] = Ballot(true);
}

// As on a GPU, a barrier does not wait for threads that have ended.
SIMT_KERNEL(64, 1)
void EarlyExitBlockKernel(Words args) {
  if (ThreadIndex() >= 32) return;
  SyncBlock();
  args.out[ThreadIndex()] = 1;
}

TEST_F(EmulatorTest, AMissedBarrierIsReportedWithTheWaitingThreads) {
  std::vector<uint32_t> out(64);
  EXPECT_DEATH(Start(DivergedBarrierKernel, {{3}, 64}, Words{}),
               "block \\(0, 0, 0\\): 63 threads wait at a block barrier, 1 wait at a warp barrier, "
               "0 have finished");
  EXPECT_DEATH(Start(EarlyExitWarpKernel, {{1}, 64}, Words{out.data()}),
               "31 wait at a warp barrier, 33 have finished");
  Start(EarlyExitBlockKernel, {{1}, 64}, Words{out.data()});
  EXPECT_EQ(std::accumulate(out.begin(), out.end(), 0), 32);
}

TEST_F(EmulatorTest, AbortsOnLaunchesThatAGpuRejects) {
  EXPECT_DEATH(Start(IndexKernel, {{1}, 48}, Words{}), "48 threads per block");
  EXPECT_DEATH(Start(IndexKernel, {{1}, 2048}, Words{}), "2048 threads per block");
  EXPECT_DEATH(Start(IndexKernel, {{1}, 64, 228 * 1024}, Words{}), "too much shared memory");
}

struct CopyArgs {
  const float* from = nullptr;  // [3, 4]
  float* out = nullptr;         // [3, 4, 4]
};

// Starts three copies; the second one writes zeros. Stores all of shared memory in `out` before
// waiting, and after the first, the second and the third copy is complete.
SIMT_KERNEL(32, 1)
void CopyKernel(CopyArgs args) {
  auto* shared = reinterpret_cast<float*>(DynamicShared());
  if (ThreadIndex() != 0) return;
  for (int i = 0; i < 3; ++i) {
    CopyAsync16(shared + 4 * i, args.from + 4 * i, i != 1);
    CommitCopies();
  }
  const auto show = [&](int after) {
    for (int i = 0; i < 12; ++i) args.out[12 * after + i] = shared[i];
  };
  show(0);
  WaitCopies<2>();
  show(1);
  WaitCopies<1>();
  show(2);
  WaitCopies<0>();
  show(3);
}

TEST_F(EmulatorTest, AsyncCopiesCompleteOnlyAtAWait) {
  alignas(16) float from[12];
  std::iota(from, from + 12, 1.0f);
  std::vector<float> out(48);
  Start(CopyKernel, {{1}, 32, 48}, CopyArgs{from, out.data()});
  for (int after = 0; after <= 3; ++after) {
    for (int i = 0; i < 12; ++i) {
      const float seen = out[12 * after + i];
      if (i / 4 >= after) {
        EXPECT_TRUE(std::isnan(seen)) << "copy " << i / 4 << " after " << after;
      } else {
        EXPECT_EQ(seen, i / 4 == 1 ? 0 : from[i]);
      }
    }
  }
}

SIMT_KERNEL(32, 1)
void UnalignedCopyKernel(CopyArgs args) { CopyAsync16(DynamicShared() + 4, args.from, true); }

TEST_F(EmulatorTest, AbortsOnUnalignedCopies) {
  alignas(16) float from[12] = {};
  EXPECT_DEATH(Start(UnalignedCopyKernel, {{1}, 32, 48}, CopyArgs{from, nullptr}),
               "must be aligned to 16 bytes");
}

struct LaneArgs {
  int* shuffled = nullptr;  // [64]
  int* exchanged = nullptr;
  uint32_t* ballots = nullptr;
  float* sums = nullptr;
  float* largest = nullptr;
};

SIMT_KERNEL(64, 1)
void LaneKernel(LaneArgs args) {
  const int i = ThreadIndex();
  args.shuffled[i] = Shuffle(100 + i, (Lane() + 5) % kWarp);
  args.exchanged[i] = ShuffleXor(100 + i, 6);
  args.ballots[i] = Ballot(i % 3 == 0);
  args.sums[i] = WarpSum(static_cast<float>(i));
  args.largest[i] = WarpMax(static_cast<float>((7 * i) % 64));
}

TEST_F(EmulatorTest, LanesExchangeValuesWithinTheirWarp) {
  for (const uint32_t seed : {0, 3}) {
    emulator::SetSchedule(seed);
    std::vector<int> shuffled(64), exchanged(64);
    std::vector<uint32_t> ballots(64);
    std::vector<float> sums(64), largest(64);
    Start(LaneKernel, {{1}, 64},
          LaneArgs{shuffled.data(), exchanged.data(), ballots.data(), sums.data(), largest.data()});
    for (int i = 0; i < 64; ++i) {
      const int first = i / 32 * 32;
      uint32_t votes = 0;
      float sum = 0, most = 0;
      for (int lane = 0; lane < 32; ++lane) {
        if ((first + lane) % 3 == 0) votes |= 1u << lane;
        sum += static_cast<float>(first + lane);
        most = std::max(most, static_cast<float>(7 * (first + lane) % 64));
      }
      EXPECT_EQ(shuffled[i], 100 + first + (i + 5) % 32);
      EXPECT_EQ(exchanged[i], 100 + (i ^ 6));
      EXPECT_EQ(ballots[i], votes);
      EXPECT_EQ(sums[i], sum);
      EXPECT_EQ(largest[i], most);
    }
  }
}

struct MatricesArgs {
  bool transposed = false;
  uint32_t* out = nullptr;  // [32, 4]
};

// Element (row, column) of matrix m is 1000 m + 10 row + column. Rows are 32 bytes apart.
SIMT_KERNEL(32, 1)
void MatricesKernel(MatricesArgs args) {
  auto* shared = reinterpret_cast<uint16_t*>(DynamicShared());
  for (int column = 0; column < 8; ++column) {
    shared[16 * Lane() + column] =
        static_cast<uint16_t>(1000 * (Lane() / 8) + 10 * (Lane() % 8) + column);
  }
  SyncWarp();
  uint32_t words[4];
  if (args.transposed) {
    LoadMatricesTransposed(words, shared + 16 * Lane());
  } else {
    LoadMatrices(words, shared + 16 * Lane());
  }
  for (int m = 0; m < 4; ++m) args.out[4 * Lane() + m] = words[m];
}

TEST_F(EmulatorTest, LoadMatricesDistributesElementsAsDocumented) {
  for (const bool transposed : {false, true}) {
    std::vector<uint32_t> out(32 * 4);
    Start(MatricesKernel, {{1}, 32, 1024}, MatricesArgs{transposed, out.data()});
    for (uint32_t lane = 0; lane < 32; ++lane) {
      for (uint32_t m = 0; m < 4; ++m) {
        const uint32_t along = transposed ? 10 : 1, across = transposed ? 1 : 10;
        const uint32_t first = 1000 * m + across * (lane / 4) + along * (2 * (lane % 4));
        EXPECT_EQ(out[4 * lane + m], first | (first + along) << 16) << lane << ", matrix " << m;
      }
    }
  }
}

struct MultiplyArgs {
  const float* a = nullptr;  // [16, 16]
  const float* b = nullptr;  // [16, 8]
  float* d = nullptr;        // [16, 8] accumulator
};

// Uses the layout that simt_nvcc.h documents.
SIMT_KERNEL(32, 1)
void MultiplyKernel(MultiplyArgs args) {
  const int g = Lane() / 4, t = Lane() % 4;
  const auto pair_a = [&](int row, int k) {
    return PackBf16(args.a[16 * row + k], args.a[16 * row + k + 1]);
  };
  const auto pair_b = [&](int k, int column) {
    return PackBf16(args.b[8 * k + column], args.b[8 * (k + 1) + column]);
  };
  const uint32_t a[4] = {pair_a(g, 2 * t), pair_a(g + 8, 2 * t), pair_a(g, 2 * t + 8),
                         pair_a(g + 8, 2 * t + 8)};
  float* const places[4] = {args.d + 8 * g + 2 * t, args.d + 8 * g + 2 * t + 1,
                            args.d + 8 * (g + 8) + 2 * t, args.d + 8 * (g + 8) + 2 * t + 1};
  float d[4];
  for (int i = 0; i < 4; ++i) d[i] = *places[i];
  MatrixMultiplyAdd(d, a, pair_b(2 * t, g), pair_b(2 * t + 8, g));
  for (int i = 0; i < 4; ++i) *places[i] = d[i];
}

TEST_F(EmulatorTest, MatrixMultiplyAddComputesAMatrixProduct) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  const auto draw = [&] { return Bf16ToFloat(FloatToBf16(normal(random))); };
  std::vector<float> a(256), b(128), d(128);
  std::generate(a.begin(), a.end(), draw);
  std::generate(b.begin(), b.end(), draw);
  std::generate(d.begin(), d.end(), draw);
  const std::vector<float> before = d;
  Start(MultiplyKernel, {{1}, 32}, MultiplyArgs{a.data(), b.data(), d.data()});
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 8; ++column) {
      double sum = before[8 * row + column];
      for (int k = 0; k < 16; ++k) sum += double{a[16 * row + k]} * b[8 * k + column];
      EXPECT_NEAR(d[8 * row + column], sum, 1e-5) << row << ", " << column;
    }
  }
}

// All threads write the same word, and the last writer determines the result.
SIMT_KERNEL(64, 1)
void RacyKernel(Words args) {
  args.out[0] = 64 * Block().x + ThreadIndex();
  auto* shared = reinterpret_cast<uint32_t*>(DynamicShared());
  shared[ThreadIndex()] = ThreadIndex();
  args.out[1 + ThreadIndex()] = shared[(ThreadIndex() + 1) % 64];  // Race: no barrier.
}

SIMT_KERNEL(64, 1)
void RaceFreeKernel(Words args) {
  AtomicAdd(args.out, static_cast<uint32_t>(64 * Block().x + ThreadIndex()));
  auto* shared = reinterpret_cast<uint32_t*>(DynamicShared());
  shared[ThreadIndex()] = ThreadIndex();
  SyncBlock();
  args.out[1 + ThreadIndex()] = shared[(ThreadIndex() + 1) % 64];
}

TEST_F(EmulatorTest, ShuffledSchedulesRevealOnlyRaces) {
  std::set<std::vector<uint32_t>> racy, race_free;
  for (uint32_t seed = 0; seed < 10; ++seed) {
    std::vector<uint32_t> first(65), second(65), again(65);
    emulator::SetSchedule(seed);
    Start(RacyKernel, {{4}, 64, 256}, Words{first.data()});
    Start(RaceFreeKernel, {{4}, 64, 256}, Words{second.data()});
    racy.insert(first);
    race_free.insert(second);
    // The same seed gives the same order.
    emulator::SetSchedule(seed);
    Start(RacyKernel, {{4}, 64, 256}, Words{again.data()});
    EXPECT_EQ(again, first);
  }
  EXPECT_GT(racy.size(), 5u);
  EXPECT_EQ(race_free.size(), 1u);
}

SIMT_KERNEL(32, 1)
void SharedKernel(Words args) {
  auto* shared = reinterpret_cast<uint32_t*>(DynamicShared());
  args.out[32 * Block().x + ThreadIndex()] = shared[ThreadIndex()];
  shared[ThreadIndex()] = 1;
}

TEST_F(EmulatorTest, SharedMemoryIsFilledWithNansInEveryBlock) {
  std::vector<uint32_t> out(96);
  Start(SharedKernel, {{3}, 32, 128}, Words{out.data()});
  for (const uint32_t word : out) EXPECT_EQ(word, 0xFFFFFFFFu);
}

}  // namespace
}  // namespace bastion::kernels::cuda
