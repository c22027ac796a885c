// The bug: in a tree deeper than the attention window, keys before the window had their raw scores
// as weights instead of 0.
#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/cpu/cpu_backend.h"

namespace bastion::kernels {
namespace {

constexpr int kRows = 60, kCached = 7, kHeads = 2, kDim = 64, kPages = 5;

std::vector<float> Random(size_t count, uint32_t seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(engine);
  return values;
}

TEST(WindowInsideTreeTest, APathGivesTheSameBitsAsTheChain) {
  std::vector<float> keys = Random(kPages * kPageTokens * kDim, 1);
  std::vector<float> values = Random(keys.size(), 2);
  const std::vector<float> query = Random(kRows * kHeads * kDim, 3);
  std::vector<int32_t> pages(kPages), positions(kRows);
  std::iota(pages.begin(), pages.end(), 0);
  std::iota(positions.begin(), positions.end(), kCached);
  std::vector<uint64_t> path(kRows);  // Row i sees rows 0 to i.
  for (int i = 0; i < kRows; ++i) path[i] = (uint64_t{2} << i) - 1;
  AttentionSpan span = {0, kRows, kCached, pages.data(), RowMask::kAncestors, path.data(), 1};
  std::vector<float> tree(query.size()), chain(query.size());
  AttentionArgs args;
  args.query = query.data();
  args.cache = {DType::kF32, 1, kDim, keys.data(), values.data()};
  args.spans = &span;
  args.span_count = 1;
  args.positions = positions.data();
  args.query_heads = kHeads;
  args.query_stride = kHeads * kDim;
  ThreadPool pool(1);
  for (const int window : {1, 9, 30, 0}) {
    args.window = window;
    span.mask = RowMask::kAncestors;
    args.output = tree.data();
    CpuBackend().attention(args, pool);
    span.mask = RowMask::kCausal;
    args.output = chain.data();
    CpuBackend().attention(args, pool);
    EXPECT_EQ(tree, chain) << "window " << window;
  }
}

}  // namespace
}  // namespace bastion::kernels
