// Tests of GPU attention that need the emulator. They check how a step is divided into items, and
// that the order of blocks and threads does not change the result.
#include "kernels/cuda/attention/attention_plan.h"

#include "kernels/cuda/simt/emulator.h"
#include "tests/kernels/cuda/attention/attention_case.h"

namespace bastion::kernels::cuda {
namespace {

using attention::ChunkBegin;
using attention::ChunkOf;
using attention::Cut;
using attention::Division;
using attention::Item;
using attention::kTileKeys;
using attention::Span;

TEST(AttentionChunksTest, ChunksConsistOfWholeTilesAndGrowWithThePosition) {
  for (int chunk = 0; chunk < 100; ++chunk) {
    const int begin = ChunkBegin(chunk), end = ChunkBegin(chunk + 1);
    EXPECT_EQ(begin % kTileKeys, 0);
    EXPECT_GT(end, begin);
    EXPECT_LE(end - begin, std::max(128, 128 + begin / 8));
    EXPECT_EQ(ChunkOf(begin), chunk);
    EXPECT_EQ(ChunkOf(end - 1), chunk);
  }
  EXPECT_EQ(AttentionChunks(2048), 13);
  EXPECT_EQ(AttentionChunks(32768), 41);
  EXPECT_EQ(AttentionChunks(1 << 20), 289);
}

struct Heads {
  int query, kv;
};

class AttentionPlanTest : public testing::TestWithParam<Heads> {
 protected:
  static constexpr int kRows = 600;

  AttentionPlanTest() : positions_(kRows) {
    args_.query_heads = GetParam().query;
    args_.cache.kv_heads = GetParam().kv;
    args_.cache.head_dim = 128;
    args_.rows.positions = positions_.data();
    args_.rows.row_capacity = kRows;
    args_.max_chunks = AttentionChunks(300'000);
  }
  Span SpanOf(int first_row, int rows, int cached, RowMask mask) {
    for (int i = 0; i < rows; ++i) positions_[first_row + i] = cached + i;
    return {.first_row = first_row, .rows = rows, .cached = cached, .mask = mask};
  }

  std::vector<int32_t> positions_;
  AttentionArgs args_;
};

TEST_P(AttentionPlanTest, TheItemsCoverTheKeysThatNoTailReads) {
  for (const RowMask mask : {RowMask::kCausal, RowMask::kAncestors, RowMask::kFull}) {
    for (const int rows : {1, 4, 17, 100, 512}) {
      for (const int cached : {0, 1, 63, 64, 127, 128, 500, 2048, 32768, 200000}) {
        for (const int window : {0, 100}) {
          args_.window = window;
          const Span span = SpanOf(0, rows, cached, mask);
          const Cut cut = attention::CutSpan(args_, span, 64);
          EXPECT_GE(cut.tiles * cut.tile_rows, rows * GetParam().query / GetParam().kv);
          EXPECT_LE(cut.begin, window > 0 ? std::max(0, cached - window + 1) : 0);
          EXPECT_EQ(cut.begin % kTileKeys, 0);
          EXPECT_EQ(cut.end, cut.division == Division::kDirect ? cached + rows : span.prefix());
          if (cut.division != Division::kChunks || cut.chunks == 0) continue;
          EXPECT_LE(ChunkBegin(cut.first_chunk), cut.begin);
          EXPECT_GE(ChunkBegin(cut.first_chunk + cut.chunks), cut.end);
          EXPECT_LT(ChunkBegin(cut.first_chunk + cut.chunks - 1), cut.end);
        }
      }
    }
  }
}

TEST_P(AttentionPlanTest, EveryPartialResultHasAPlaceInTheScratch) {
  const size_t bytes =
      AttentionScratchBytes(kRows, GetParam().query, args_.cache.head_dim, args_.max_chunks);
  std::vector<float> scratch(bytes / sizeof(float));
  args_.scratch = scratch.data();
  const float* const begin = scratch.data();
  for (const int first_row : {0, 100, 300}) {
    const Span span = SpanOf(first_row, 28, 299'000, RowMask::kAncestors);
    const Cut cut = attention::CutSpan(args_, span, 64);
    EXPECT_EQ(cut.division, first_row <= 100 ? Division::kChunks : Division::kFolded);
    Item item;
    item.span = span;
    item.division = cut.division;
    item.group = GetParam().query / GetParam().kv;
    item.kv_head = GetParam().kv - 1;
    item.rows = cut.packed;
    const int last = cut.division == Division::kChunks ? cut.first_chunk + cut.chunks - 1 : 1;
    for (const int chunk : {0, last}) {
      for (const int row : {0, cut.packed - 1}) {
        const attention::Partial partial = attention::PartialAt(args_, item, chunk, row);
        EXPECT_LE((partial.sums - begin + args_.cache.head_dim) * sizeof(float), bytes);
        EXPECT_LT(partial.weight + 1, partial.sums);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Heads, AttentionPlanTest,
                         testing::Values(Heads{32, 8}, Heads{1, 1}, Heads{12, 2}, Heads{16, 1},
                                         Heads{28, 4}, Heads{40, 40}));

// REQUIRES: 32 query heads.
int WarpgroupsOf(int capability, int rows, int kv_heads, int head_dim) {
  AttentionArgs args;
  args.capability = capability;
  args.rows.row_capacity = rows;
  args.query_heads = 32;
  args.cache.kv_heads = kv_heads;
  args.cache.head_dim = head_dim;
  return attention::WarpgroupsFor(args);
}

TEST(AttentionWarpgroupsTest, StepsOfManyRowsUseTwoOnSm90) {
  for (const int head_dim : {8, 64, 80, 128}) {
    EXPECT_EQ(WarpgroupsOf(90, 1, 8, head_dim), 1);
    EXPECT_EQ(WarpgroupsOf(90, 32, 8, head_dim), 1);
    EXPECT_EQ(WarpgroupsOf(90, 33, 8, head_dim), 2);
    EXPECT_EQ(WarpgroupsOf(90, 512, 8, head_dim), 2);
    EXPECT_EQ(WarpgroupsOf(90, 128, 32, head_dim), 1);
    EXPECT_EQ(WarpgroupsOf(90, 5, 1, head_dim), 2);
  }
}

TEST(AttentionWarpgroupsTest, WideHeadsAndOtherGpusDoNotUseThem) {
  for (const int rows : {1, 64, 512}) {
    EXPECT_EQ(WarpgroupsOf(90, rows, 8, 136), 0);
    EXPECT_EQ(WarpgroupsOf(90, rows, 8, 256), 0);
    for (const int capability : {0, 80, 89, 100, 120}) {
      EXPECT_EQ(WarpgroupsOf(capability, rows, 8, 128), 0);
    }
  }
}

TEST(AttentionBlocksTest, EveryItemHasOneBlock) {
  constexpr int kMultiprocessors = 5;
  for (const int blocks : {kMultiprocessors, 2 * kMultiprocessors}) {
    std::vector<int> turns(47), of_multiprocessor(kMultiprocessors);
    emulator::Run({{blocks}, kWarp, 0}, [&] {
      if (simt::Lane() != 0) return;
      attention::BlockItems items(kMultiprocessors);
      for (; items.index() < 47; items.Advance()) {
        ++turns[items.index()];
        of_multiprocessor[simt::Block().x % kMultiprocessors] += 47 - items.index();
      }
    });
    EXPECT_EQ(turns, std::vector<int>(47, 1));
    // Item i has 47 − i keys here. The shares differ by less than one large item.
    const auto [least, most] =
        std::minmax_element(of_multiprocessor.begin(), of_multiprocessor.end());
    EXPECT_LT(*most - *least, 15);
  }
}

TEST(AttentionScratchTest, SizeIsWithinTheDocumentedLimits) {
  EXPECT_LT(AttentionScratchBytes(512, 32, 128, AttentionChunks(40'960)), size_t{105} << 20);
}

TEST(AttentionScheduleTest, TheOrderOfBlocksAndThreadsDoesNotChangeBits) {
  auto stream = Stream::Create();
  ASSERT_TRUE(stream.ok());
  AttentionShape sinks = {"", 4, 1, 64, {{300, 6, Form::kTree}, {0, 20, Form::kChain}}, 60};
  sinks.sinks = 5;
  for (const AttentionShape& shape :
       {sinks, AttentionShape{"", 4, 1, 64, {{1000, 1, Form::kTree}, {600, 7, Form::kTree}}},
        AttentionShape{"", 2, 2, 128, {{900, 40, Form::kTree}, {31, 3, Form::kChain}}, 700},
        AttentionShape{"", 4, 1, 64, {{270, 30, Form::kTree}, {40, 33, Form::kChain}}},
        AttentionShape{"", 1, 1, 256, {{400, 20, Form::kTree}}}}) {
    AttentionCase step(shape, DType::kBF16);
    const std::vector<float> expected = step.Run(**stream, 8, 80);
    for (const uint32_t seed : {1, 2, 3, 4, 5}) {
      emulator::SetSchedule(seed);
      EXPECT_EQ(expected, step.Run(**stream, 8, 80)) << "schedule " << seed;
      EXPECT_EQ(expected, step.Run(**stream, 8, 90)) << "warpgroups, schedule " << seed;
    }
    emulator::SetSchedule(0);
  }
}

}  // namespace
}  // namespace bastion::kernels::cuda
