#include <gtest/gtest.h>

#include <numeric>

#include "tests/kernels/kernel_test_support.h"

namespace bastion::kernels {
namespace {

struct Heads {
  int query, kv, dim;
};

// A cache of random keys and values. The page table is in scrambled order.
class Cache {
 public:
  Cache(DType dtype, Heads heads, int pages) : pages_(pages) {
    layer_ = {dtype, heads.kv, heads.dim, nullptr, nullptr};
    const size_t count = layer_.page_elements() * pages;
    keys_ = RandomFloats(count, 11);
    values_ = RandomFloats(count, 12);
    keys16_ = ToBf16(keys_);
    values16_ = ToBf16(values_);
    const bool f32 = dtype == DType::kF32;
    layer_.keys = f32 ? static_cast<void*>(keys_.data()) : keys16_.data();
    layer_.values = f32 ? static_cast<void*>(values_.data()) : values16_.data();
    for (int p = 0; p < pages; ++p) table_.push_back((p * 7 + 3) % pages);
  }
  const KvLayer& layer() const { return layer_; }
  const int32_t* pages(int first = 0) const { return table_.data() + first; }
  int64_t slot(int token, int first_page = 0) const {
    return int64_t{table_[first_page + token / kPageTokens]} * kPageTokens + token % kPageTokens;
  }

 private:
  int pages_;
  KvLayer layer_;
  std::vector<float> keys_, values_;
  std::vector<uint16_t> keys16_, values16_;
  std::vector<int32_t> table_;
};

// parents[0] is -1, and parents come before their children.
std::vector<uint64_t> AncestorBits(const std::vector<int>& parents, int words) {
  std::vector<uint64_t> bits(parents.size() * words, 0);
  for (size_t i = 0; i < parents.size(); ++i) {
    for (int j = static_cast<int>(i); j >= 0; j = parents[j]) {
      bits[i * words + j / 64] |= uint64_t{1} << (j % 64);
    }
  }
  return bits;
}

std::vector<int> RandomParents(int rows, uint32_t seed) {
  std::mt19937 engine(seed);
  std::vector<int> parents = {-1};
  for (int i = 1; i < rows; ++i) parents.push_back(static_cast<int>(engine() % i));
  return parents;
}

std::vector<int32_t> TreePositions(const std::vector<int>& parents, int cached) {
  std::vector<int32_t> positions;
  for (const int parent : parents) positions.push_back(parent < 0 ? cached : positions[parent] + 1);
  return positions;
}

class AttentionTest : public testing::TestWithParam<std::tuple<Heads, DType>> {
 protected:
  AttentionTest() : heads_(std::get<0>(GetParam())), cache_(std::get<1>(GetParam()), heads_, 64) {}

  std::vector<float> Run(const Backend& backend, const std::vector<AttentionSpan>& spans,
                         const std::vector<int32_t>& positions, const std::vector<float>& query,
                         int threads = 2) {
    ThreadPool pool(threads);
    std::vector<float> output(query.size(), -7.0f);
    AttentionArgs args;
    args.query = query.data();
    args.output = output.data();
    args.cache = cache_.layer();
    args.spans = spans.data();
    args.span_count = static_cast<int>(spans.size());
    args.positions = positions.data();
    args.query_heads = heads_.query;
    args.query_stride = width();
    args.window = window_;
    args.scale = 0.2f;
    backend.attention(args, pool);
    return output;
  }
  int width() const { return heads_.query * heads_.dim; }

  Heads heads_;
  Cache cache_;
  int window_ = 0;
};

TEST_P(AttentionTest, AgreesWithReferenceOnRaggedBatchesOfTreesChainsAndBlocks) {
  for (const int window : {0, 9}) {
    window_ = window;
    const std::vector<int> tree = RandomParents(70, 5);
    const std::vector<uint64_t> bits = AncestorBits(tree, 2);
    std::vector<AttentionSpan> spans(4);
    spans[0] = {0, 70, 45, cache_.pages(0), RowMask::kAncestors, bits.data(), 2};
    spans[1] = {70, 1, 0, cache_.pages(20), RowMask::kCausal, nullptr, 0};
    spans[2] = {71, 19, 16, cache_.pages(30), RowMask::kCausal, nullptr, 0};
    spans[3] = {90, 8, 33, cache_.pages(40), RowMask::kFull, nullptr, 0};
    std::vector<int32_t> positions = TreePositions(tree, 45);
    positions.push_back(0);
    for (int i = 0; i < 19; ++i) positions.push_back(16 + i);
    for (int i = 0; i < 8; ++i) positions.push_back(33 + i);
    const std::vector<float> query = RandomFloats(positions.size() * width(), 21);
    const std::vector<float> expected = Run(ReferenceBackend(), spans, positions, query);
    ForEachInstructionSet([&](const char* name) {
      const std::vector<float> actual = Run(CpuBackend(), spans, positions, query);
      for (size_t i = 0; i < actual.size(); ++i) {
        ASSERT_NEAR(actual[i], expected[i], 2e-5) << name << " window " << window << " at " << i;
      }
    });
  }
}

// Losslessness depends on this: the output of a tree row equals, bit for bit, the output of its
// path decoded as a chain.
TEST_P(AttentionTest, ATreeRowEqualsItsPathDecodedAsAChain) {
  const int cached = 21;
  const std::vector<int> tree = RandomParents(40, 6);
  const std::vector<uint64_t> bits = AncestorBits(tree, 1);
  const std::vector<int32_t> positions = TreePositions(tree, cached);
  const std::vector<float> query = RandomFloats(positions.size() * width(), 22);
  const std::vector<AttentionSpan> spans = {
      {0, 40, cached, cache_.pages(0), RowMask::kAncestors, bits.data(), 1}};
  const std::vector<float> together = Run(CpuBackend(), spans, positions, query);
  ThreadPool pool(1);
  for (int leaf = 0; leaf < 40; ++leaf) {
    std::vector<int> path;
    for (int j = leaf; j >= 0; j = tree[j]) path.insert(path.begin(), j);
    // Copy the prefix and the path's keys and values to other pages, one after the other.
    std::vector<int64_t> from, to;
    for (int t = 0; t < cached; ++t) from.push_back(cache_.slot(t));
    for (const int j : path) from.push_back(cache_.slot(cached + j));
    for (size_t t = 0; t < from.size(); ++t) to.push_back(cache_.slot(static_cast<int>(t), 32));
    CpuBackend().kv_move({cache_.layer(), from.data(), to.data(), static_cast<int>(from.size())},
                         pool);
    // Decode the leaf as one step after all other tokens.
    const int before = static_cast<int>(from.size()) - 1;
    const std::vector<AttentionSpan> chain = {
        {0, 1, before, cache_.pages(32), RowMask::kCausal, nullptr, 0}};
    const std::vector<float> own(query.begin() + size_t(leaf) * width(),
                                 query.begin() + size_t(leaf + 1) * width());
    const std::vector<float> alone = Run(CpuBackend(), chain, {before}, own, 1);
    ASSERT_TRUE(SameBits(alone.data(), together.data() + size_t(leaf) * width(), width()))
        << "leaf " << leaf;
  }
}

TEST_P(AttentionTest, MaskingAKeyChangesTheOutput) {
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

TEST_P(AttentionTest, AChainHasTheSameBitsWithEveryMask) {
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

INSTANTIATE_TEST_SUITE_P(Shapes, AttentionTest,
                         testing::Combine(testing::Values(Heads{2, 2, 16}, Heads{6, 2, 64},
                                                          Heads{8, 1, 32}, Heads{4, 1, 128}),
                                          testing::Values(DType::kF32, DType::kBF16)));

}  // namespace
}  // namespace bastion::kernels
