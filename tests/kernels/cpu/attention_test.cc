#include <algorithm>
#include <numeric>

#include "kernels/cpu/cpu_backend.h"
#include "tests/kernels/attention_test_support.h"

namespace bastion::kernels {
namespace {

// Losslessness depends on this: a tree row has the same bits as the last row of its path run as a
// chain.
TEST_P(AttentionTest, ATreeRowHasTheSameBitsAsItsPathRunAsAChain) {
  const int cached = 21;
  const std::vector<int> tree = RandomParents(40, 6);
  const std::vector<uint64_t> bits = AncestorBits(tree, 1);
  const std::vector<int32_t> positions = TreePositions(tree, cached);
  const std::vector<float> query = RandomFloats(positions.size() * width(), 22);
  const std::vector<AttentionSpan> spans = {
      {0, 40, cached, cache_.pages(0), RowMask::kAncestors, bits.data(), 1}};
  const std::vector<float> in_tree = Run(CpuBackend(), spans, positions, query);
  ThreadPool pool(1);
  for (int leaf = 0; leaf < 40; ++leaf) {
    std::vector<int> path;
    for (int j = leaf; j >= 0; j = tree[j]) path.insert(path.begin(), j);
    // Copies the prefix and then the keys of the path to other pages.
    std::vector<int64_t> from, to;
    for (int t = 0; t < cached; ++t) from.push_back(cache_.slot(t));
    for (const int j : path) from.push_back(cache_.slot(cached + j));
    for (size_t t = 0; t < from.size(); ++t) to.push_back(cache_.slot(static_cast<int>(t), 32));
    CpuBackend().kv_move({cache_.layer(), from.data(), to.data(), static_cast<int>(from.size())},
                         pool);
    // Runs one decode step: everything before the leaf is cached.
    const int before = static_cast<int>(from.size()) - 1;
    const std::vector<AttentionSpan> chain = {
        {0, 1, before, cache_.pages(32), RowMask::kCausal, nullptr, 0}};
    const std::vector<float> own(query.begin() + size_t(leaf) * width(),
                                 query.begin() + size_t(leaf + 1) * width());
    const std::vector<float> in_chain = Run(CpuBackend(), chain, {before}, own, 1);
    ASSERT_TRUE(SameBits(in_chain.data(), in_tree.data() + size_t(leaf) * width(), width()))
        << "leaf " << leaf;
  }
}

// An autoregressive drafter computes a tree level by level. Earlier rows are then in the cache.
TEST_P(AttentionTest, ATreeInSeveralForwardsGetsTheBitsOfOneForward) {
  const int cached = 21, rows = 80, words = 2;
  const std::vector<int> tree = RandomParents(rows, 8);
  const std::vector<uint64_t> bits = AncestorBits(tree, words);
  const std::vector<int32_t> positions = TreePositions(tree, cached);
  const std::vector<float> query = RandomFloats(positions.size() * width(), 25);
  for (const int window : {0, 5, 30}) {
    window_ = window;
    const std::vector<AttentionSpan> whole = {
        {0, rows, cached, cache_.pages(0), RowMask::kAncestors, bits.data(), words}};
    const std::vector<float> expected = Run(CpuBackend(), whole, positions, query);
    for (int begin = 0, end = 1; begin < rows; begin = end, end = std::min(rows, 3 * end)) {
      const std::vector<AttentionSpan> part = {{0, end - begin, cached, cache_.pages(0),
                                                RowMask::kAncestors,
                                                bits.data() + size_t(begin) * words, words, begin}};
      const std::vector<float> actual =
          Run(CpuBackend(), part, {positions.begin() + begin, positions.begin() + end},
              {query.begin() + size_t(begin) * width(), query.begin() + size_t(end) * width()});
      EXPECT_TRUE(SameBits(actual.data(), expected.data() + size_t(begin) * width(),
                           size_t(end - begin) * width()))
          << "rows from " << begin << ", window " << window;
    }
  }
}

// With a query of zeros, all keys that a row sees have the same weight.
TEST_P(AttentionTest, AZeroQueryAveragesTheVisibleValues) {
  const RaggedBatch batch(cache_);
  const std::vector<float> query(batch.positions.size() * width(), 0.0f);
  const int group = heads_.query / heads_.kv;
  for (const int window : {0, 9}) {
    window_ = window;
    ForEachInstructionSet([&](const char* name) {
      const std::vector<float> actual = Run(CpuBackend(), batch.spans, batch.positions, query);
      for (const AttentionSpan& span : batch.spans) {
        const auto first_page = static_cast<int>(span.pages - cache_.pages());
        for (int i = 0; i < span.rows; ++i) {
          std::vector<int64_t> seen;
          for (int token = 0; token < span.cached + span.rows; ++token) {
            if (batch.Sees(span, i, token, window)) seen.push_back(cache_.slot(token, first_page));
          }
          for (int column = 0; column < width(); ++column) {
            double sum = 0;
            for (const int64_t slot : seen) {
              sum += cache_.value(slot, column / heads_.dim / group, column % heads_.dim);
            }
            ASSERT_NEAR(actual[size_t(span.first_row + i) * width() + column],
                        sum / static_cast<double>(seen.size()), 2e-5)
                << name << " window " << window << " row " << span.first_row + i;
          }
        }
      }
    });
  }
}

TEST_P(AttentionTest, HidingAKeyChangesTheOutput) {
  const std::vector<uint64_t> sees_all = {0b1, 0b11, 0b111};
  const std::vector<uint64_t> misses_one = {0b1, 0b11, 0b101};
  const std::vector<int32_t> positions = {10, 11, 12};
  const std::vector<float> query = RandomFloats(3 * width(), 23);
  std::vector<AttentionSpan> spans = {
      {0, 3, 10, cache_.pages(0), RowMask::kAncestors, sees_all.data(), 1}};
  const std::vector<float> all = Run(CpuBackend(), spans, positions, query);
  spans[0].ancestors = misses_one.data();
  const std::vector<float> masked = Run(CpuBackend(), spans, positions, query);
  EXPECT_TRUE(SameBits(all.data(), masked.data(), 2 * width()));
  EXPECT_FALSE(SameBits(all.data() + 2 * width(), masked.data() + 2 * width(), width()));
}

TEST_P(AttentionTest, AChainGivesTheSameBitsWithACausalMaskAndWithAncestorBits) {
  const int rows = 20, cached = 14;
  std::vector<int> chain(rows);
  std::iota(chain.begin(), chain.end(), -1);
  const std::vector<uint64_t> bits = AncestorBits(chain, 1);
  const std::vector<int32_t> positions = TreePositions(chain, cached);
  const std::vector<float> query = RandomFloats(size_t(rows) * width(), 24);
  std::vector<AttentionSpan> spans = {
      {0, rows, cached, cache_.pages(0), RowMask::kAncestors, bits.data(), 1}};
  const std::vector<float> as_tree = Run(CpuBackend(), spans, positions, query);
  spans[0].mask = RowMask::kCausal;
  EXPECT_EQ(as_tree, Run(CpuBackend(), spans, positions, query));
}

INSTANTIATE_TEST_SUITE_P(Shapes, AttentionTest, AttentionShapes());

}  // namespace
}  // namespace bastion::kernels
