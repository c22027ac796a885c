// Tests of GPU attention that need the emulator. They check how a step is divided into items, and
// that the order of blocks and threads does not change the result.
#include "kernels/cuda/attention/attention_plan.h"

#include "kernels/cuda/simt/emulator.h"
#include "tests/kernels/cuda/attention/attention_case.h"

namespace bastion::kernels::cuda {
namespace {

using attention::Cut;
using attention::Span;

struct Heads {
  int query, kv;
};

class AttentionPlanTest : public testing::TestWithParam<Heads> {
 protected:
  // Makes one span for each pair: `rows` rows after `cached` tokens.
  std::vector<Span> Spans(const std::vector<std::pair<int, int>>& rows_and_cached) {
    std::vector<Span> spans;
    int row = 0;
    for (const auto& [rows, cached] : rows_and_cached) {
      spans.push_back({.index = static_cast<int>(spans.size()),
                       .first_row = row,
                       .rows = rows,
                       .cached = cached,
                       .mask = RowMask::kAncestors});
      row += rows;
    }
    return spans;
  }
  AttentionArgs Args() {
    AttentionArgs args;
    args.query_heads = GetParam().query;
    args.cache.kv_heads = GetParam().kv;
    args.cache.head_dim = 128;
    return args;
  }
};

TEST_P(AttentionPlanTest, ChunksConsistOfWholeKeyTilesAndCoverAllKeys) {
  for (const int rows : {1, 4, 5, 8, 9, 16, 17, 100, 512}) {
    for (const int cached : {0, 1, 63, 64, 127, 128, 500, 2048, 32768, 200000}) {
      const Span span = {.rows = rows, .cached = cached};
      const Cut cut = attention::CutSpan(Args(), span);
      EXPECT_EQ(cut.chunk_keys % attention::kTileKeys, 0);
      EXPECT_GE(cut.chunks * cut.chunk_keys, span.length());
      EXPECT_LT((cut.chunks - 1) * cut.chunk_keys, span.length());
      EXPECT_GE(cut.tiles * cut.tile_rows, rows * GetParam().query / GetParam().kv);
      EXPECT_TRUE(cut.chunks == 1 || cut.items(GetParam().kv) <= attention::kMaxItems);
    }
  }
}

TEST_P(AttentionPlanTest, ScratchIsLargeEnoughForAnySpans) {
  std::mt19937 engine(3);
  const AttentionArgs args = Args();
  const int kv_heads = GetParam().kv;
  for (int round = 0; round < 500; ++round) {
    std::vector<std::pair<int, int>> shape;
    const int max_rows = 1 << engine() % 8;
    size_t total = 0;
    for (int left = 1 + static_cast<int>(engine() % 64); left > 0; --left) {
      shape.emplace_back(1 + engine() % max_rows, engine() % 300000);
      total += shape.back().first;
    }
    size_t partial_rows = 0;
    int counters = 0;
    for (const Span& span : Spans(shape)) {
      const Cut cut = attention::CutSpan(args, span);
      partial_rows += cut.partial_rows(kv_heads);
      EXPECT_GE(attention::FirstCounter(args, span), counters)
          << "the counters of two spans overlap";
      counters = attention::FirstCounter(args, span) + kv_heads * cut.tiles;
    }
    const size_t group = GetParam().query / kv_heads;
    EXPECT_LE(partial_rows, attention::PartialRowsBound(total, shape.size(), group));
    EXPECT_LE(static_cast<size_t>(counters),
              attention::TilesBound(total, shape.size(), GetParam().query, kv_heads));
  }
}

INSTANTIATE_TEST_SUITE_P(Heads, AttentionPlanTest,
                         testing::Values(Heads{32, 8}, Heads{1, 1}, Heads{12, 2}, Heads{16, 1},
                                         Heads{28, 4}, Heads{40, 40}));

TEST(AttentionScratchTest, SizeIsWithinTheDocumentedLimits) {
  EXPECT_LT(AttentionScratchBytes(512, 64, 32, 8, 128), size_t{200} << 20);
  EXPECT_LT(AttentionScratchBytes(256, 1, 32, 8, 128), size_t{9} << 20);
}

TEST(AttentionScheduleTest, TheOrderOfBlocksAndThreadsDoesNotChangeBits) {
  auto stream = Stream::Create();
  ASSERT_TRUE(stream.ok());
  for (const AttentionShape& shape :
       {AttentionShape{"", 4, 1, 64, {{1000, 1, Form::kTree}, {600, 7, Form::kTree}}},
        AttentionShape{"", 2, 2, 128, {{900, 40, Form::kTree}, {31, 3, Form::kChain}}, 700},
        AttentionShape{"", 1, 1, 256, {{400, 20, Form::kTree}}}}) {
    AttentionCase step(shape, DType::kBF16);
    const std::vector<float> expected = step.Run(**stream, 8);
    for (const uint32_t seed : {1, 2, 3, 4, 5}) {
      emulator::SetSchedule(seed);
      EXPECT_EQ(expected, step.Run(**stream, 8)) << "schedule " << seed;
      EXPECT_TRUE(step.CountersAreZero());
    }
    emulator::SetSchedule(0);
  }
}

}  // namespace
}  // namespace bastion::kernels::cuda
