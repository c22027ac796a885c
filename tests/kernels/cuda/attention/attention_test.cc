#include "tests/kernels/cuda/attention/attention_case.h"

namespace bastion::kernels::cuda {
namespace {

class DeviceAttentionTest : public DeviceTest {
 protected:
  std::vector<float> Run(AttentionCase& step) {
    return step.Run(*stream_, device_.multiprocessors, device_.capability);
  }
};

class DeviceAttentionShapeTest : public DeviceAttentionTest,
                                 public testing::WithParamInterface<AttentionShape> {};

// Whether row i of the span's tree sees key `key`. Derived from the parents, not from masks.
bool Sees(const AttentionShape& shape, const TestSpan& span, int i, int key) {
  const auto position = [&](int row) {
    if (span.mask != RowMask::kAncestors) return span.cached + row;
    int depth = 0;
    for (int j = row; span.parents[j] >= 0; j = span.parents[j]) ++depth;
    return span.cached + depth;
  };
  const int row = key - span.cached;
  const int at = row < 0 ? key : position(row);
  const bool outside = shape.window > 0 && at <= position(i) - shape.window;
  if (outside && at >= shape.sinks) return false;
  if (row < 0) return true;
  if (span.mask == RowMask::kFull && !shape.causal) return true;
  if (span.mask != RowMask::kAncestors) return row <= i;
  for (int j = i; j >= 0; j = span.parents[j]) {
    if (j == row) return true;
  }
  return false;
}

// With queries of zeros, each of the n keys that a row sees has the weight 1 / n. Column d of the
// values is 1 for one key only, so the output shows which keys the row sees. With random operands,
// a wrong mask could go unnoticed.
TEST_P(DeviceAttentionShapeTest, EachRowSeesItsKeysAndNoOthers) {
  if (GetParam().large && device_.name == "emulator") GTEST_SKIP() << "too slow on the emulator";
  AttentionCase step(GetParam(), DType::kBF16);
  const int dim = GetParam().head_dim;
  int longest = 0;
  for (const TestSpan& span : step.spans()) {
    longest = std::max(longest, span.cached + static_cast<int>(span.parents.size()));
  }
  // Check the oldest keys first, then the newest.
  for (const int first : {0, std::max(longest - dim, 0)}) {
    step.SetValues([&](int token, int d) { return token == first + d ? 1.0f : 0.0f; });
    const std::vector<float> actual = Run(step);
    size_t at = 0;
    for (const TestSpan& span : step.spans()) {
      for (int i = span.earlier; i < static_cast<int>(span.parents.size()); ++i) {
        const int keys = span.cached + static_cast<int>(span.parents.size());
        std::vector<bool> seen(std::max(keys, first + dim));
        int count = 0;
        for (int key = 0; key < keys; ++key) count += seen[key] = Sees(GetParam(), span, i, key);
        const float weight = Rounded(DType::kBF16, {1.0f / static_cast<float>(count)})[0];
        for (int h = 0; h < GetParam().query_heads; ++h) {
          for (int d = 0; d < dim; ++d, ++at) {
            ASSERT_EQ(actual[at], seen[first + d] ? weight : 0.0f)
                << "row " << i << " after " << span.cached << ", head " << h << ", key "
                << first + d;
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, DeviceAttentionShapeTest, testing::ValuesIn(AttentionShapes()),
                         [](const auto& shape) { return shape.param.name; });

// Sinks that meet the window, lie far before it, fill more than a tile, and are rows of the step
// themselves.
std::vector<AttentionShape> SinkShapes() {
  const auto with = [](AttentionShape shape, int sinks, int window) {
    shape.sinks = sinks;
    shape.window = window;
    return shape;
  };
  return {
      with({"SinksAfterALongText", 4, 1, 64, {{400, 20, Form::kTree}}}, 4, 100),
      with({"SinksAsTheWindowFills", 2, 2, 64, {{30, 12, Form::kTree}}}, 3, 30),
      with({"SinksInTheTree", 4, 2, 64, {{1, 12, Form::kTree}, {5, 3, Form::kPath}}}, 4, 6),
      with({"ManySinks", 3, 1, 128, {{300, 9, Form::kTree}, {20, 90, Form::kTree}}}, 100, 50),
      with({"SinksOfAPrompt", 2, 1, 64, {{0, 150, Form::kChain}, {100, 70, Form::kChain}}}, 5, 60),
      with({"SinksOfALaterRound", 2, 1, 64, {{126, 30, Form::kTree, 14}}}, 4, 64),
      with({"SinksOfWideHeads", 3, 1, 256, {{90, 5, Form::kTree}}}, 2, 40)};
}
INSTANTIATE_TEST_SUITE_P(Sinks, DeviceAttentionShapeTest, testing::ValuesIn(SinkShapes()),
                         [](const auto& shape) { return shape.param.name; });

// Shapes whose keys are divided into chunks. The block that finishes last merges them.
const std::vector<AttentionShape>& ChunkedShapes() {
  static const auto* const shapes = new std::vector<AttentionShape>{
      {"", 4, 1, 64, {{1000, 1, Form::kTree}, {400, 7, Form::kTree}, {900, 20, Form::kTree}}},
      {"", 2, 2, 128, {{513, 40, Form::kTree}, {31, 3, Form::kChain}}}};
  return *shapes;
}

TEST_F(DeviceAttentionTest, BitsDoNotDependOnTheLaunchOrTheNumberOfBlocks) {
  for (const AttentionShape& shape : ChunkedShapes()) {
    AttentionCase step(shape, DType::kBF16);
    const std::vector<float> first = Run(step);
    EXPECT_EQ(first, Run(step));
    for (const int multiprocessors : {1, 7, 40}) {
      EXPECT_EQ(first, step.Run(*stream_, multiprocessors, device_.capability)) << multiprocessors;
    }
  }
}

TEST_F(DeviceAttentionTest, ASequenceGetsTheSameBitsInAnyBatch) {
  for (const AttentionShape& shape : ChunkedShapes()) {
    // Use paths, because the random tree of a sequence depends on the other sequences.
    AttentionShape chains = shape;
    for (SpanShape& span : chains.spans) span.form = Form::kPath;
    AttentionCase chained(chains, DType::kBF16);
    const std::vector<float> expected = Run(chained);
    size_t at = 0;
    for (const SpanShape& span : chains.spans) {
      AttentionShape single = chains;
      single.spans = {span};
      AttentionCase step(single, DType::kBF16);
      const std::vector<float> actual = Run(step);
      const size_t count = size_t(span.rows) * step.width();
      EXPECT_TRUE(SameBits(actual.data(), expected.data() + at, count)) << span.cached;
      at += count;
    }
  }
}

// Rows of trees whose paths cross tiles and chunks of keys, more rows than blocks divide into
// chunks, and prompts of several tiles of rows.
std::vector<AttentionShape> ExactShapes() {
  std::vector<SpanShape> many;
  for (int b = 0; b < 12; ++b) many.push_back({60 + 20 * b, 15, Form::kTree});
  return {{"Tree", 4, 1, 64, {{130, 20, Form::kTree}, {60, 12, Form::kPath}}},
          {"TreeAtTheEndOfAChunk", 2, 1, 64, {{1020, 9, Form::kPath}, {1152, 3, Form::kTree}}},
          {"LongContext", 4, 2, 128, {{1500, 6, Form::kTree}}},
          {"WideHeads", 3, 1, 256, {{250, 9, Form::kTree}}},
          {"ManyHeadsPerKvHead", 24, 1, 64, {{70, 3, Form::kTree}}},
          {"Window", 4, 1, 64, {{400, 20, Form::kTree}, {200, 90, Form::kChain}}, 100},
          {"Prompt", 2, 1, 64, {{0, 150, Form::kChain}, {100, 70, Form::kChain}}},
          {"LaterRound", 2, 1, 64, {{126, 30, Form::kTree, 14}}},
          {"MoreRowsThanAreDivided", 2, 1, 64, many}};
}

class ExactAttentionTest : public DeviceAttentionTest,
                           public testing::WithParamInterface<AttentionShape> {};

TEST_P(ExactAttentionTest, EveryRowHasTheBitsOfPlainDecodingOfItsPath) {
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    AttentionCase step(GetParam(), dtype);
    const std::vector<float> all = Run(step);
    size_t at = 0;
    for (size_t b = 0; b < step.spans().size(); ++b) {
      const TestSpan& span = step.spans()[b];
      for (int i = span.earlier; i < static_cast<int>(span.parents.size()); ++i) {
        AttentionCase plain = step.PathTo(b, i);
        const std::vector<float> one = Run(plain);
        ASSERT_TRUE(SameBits(all.data() + at, one.data(), step.width()))
            << Name(dtype) << ", row " << i << " after " << span.cached;
        at += step.width();
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Shapes, ExactAttentionTest, testing::ValuesIn(ExactShapes()),
                         [](const auto& shape) { return shape.param.name; });
INSTANTIATE_TEST_SUITE_P(Sinks, ExactAttentionTest, testing::ValuesIn(SinkShapes()),
                         [](const auto& shape) { return shape.param.name; });

// Sinks and window are then all keys of the row.
TEST_F(DeviceAttentionTest, SinksWithTheQueryOfTheWindowAreFullAttention) {
  AttentionShape shape = {"", 2, 1, 64, {{90, 7, Form::kTree}}};
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    const std::vector<float> expected = AttentionCase(shape, dtype).Expected();
    AttentionShape sinks = shape;
    sinks.sinks = 80;
    sinks.window = 17;
    AttentionCase step(sinks, dtype);
    EXPECT_NE(Run(step), expected) << "the sinks have another query";
    step.UseOneQuery();
    const std::vector<float> actual = Run(step);
    for (size_t i = 0; i < actual.size(); ++i) {
      ASSERT_NEAR(actual[i], expected[i], dtype == DType::kF32 ? 1e-5f : 1e-2f) << i;
    }
  }
}

// With `causal`, the rows of a block see the same keys as the rows of a chain.
TEST_F(DeviceAttentionTest, AChainGivesTheSameBitsUnderEveryMask) {
  for (const int window : {0, 50}) {
    for (const SpanShape& span : {SpanShape{14, 20}, {500, 9}, {64, 64}, {30, 150}}) {
      AttentionShape shape = {"", 3, 1, 64, {span}, window, /*causal=*/true};
      AttentionCase chain(shape, DType::kBF16);
      const std::vector<float> expected = Run(chain);
      for (const Form form : {Form::kPath, Form::kBlock}) {
        shape.spans[0].form = form;
        AttentionCase other(shape, DType::kBF16);
        EXPECT_EQ(expected, Run(other)) << "window " << window << ", " << span.cached << " cached";
      }
    }
  }
}

TEST_F(DeviceAttentionTest, AWindowChangesOnlyTheRowThatLosesAKey) {
  AttentionShape shape = {"", 4, 2, 64, {{10, 3, Form::kPath}}};
  AttentionCase all(shape, DType::kBF16);
  shape.window = 12;  // Only the row at position 12 no longer sees the key at position 0.
  AttentionCase without(shape, DType::kBF16);
  const std::vector<float> before = Run(all), after = Run(without);
  const int width = all.width();
  EXPECT_TRUE(SameBits(before.data(), after.data(), 2 * width));
  for (int i = 2 * width; i < 3 * width; i += shape.head_dim) {
    EXPECT_FALSE(SameBits(before.data() + i, after.data() + i, shape.head_dim)) << "head at " << i;
  }
}

TEST(AttentionSupportsTest, HeadDimIsAMultipleOfEightUpTo256) {
  EXPECT_TRUE(AttentionSupports(32, 8, 128));
  EXPECT_TRUE(AttentionSupports(3, 1, 8));
  EXPECT_TRUE(AttentionSupports(16, 16, 256));
  EXPECT_FALSE(AttentionSupports(32, 8, 264));
  EXPECT_FALSE(AttentionSupports(32, 8, 100));
  EXPECT_FALSE(AttentionSupports(10, 4, 64));
}

}  // namespace
}  // namespace bastion::kernels::cuda
