// A paged cache, trees and a fixture for tests of attention on CPU backends.
#ifndef BASTION_TESTS_KERNELS_ATTENTION_TEST_SUPPORT_H_
#define BASTION_TESTS_KERNELS_ATTENTION_TEST_SUPPORT_H_

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <tuple>
#include <vector>

#include "tests/kernels/kernel_test_support.h"

namespace bastion::kernels {

struct Heads {
  int query, kv, dim;
};

// A cache of random keys and values. The order of its pages is scrambled.
class Cache {
 public:
  Cache(DType dtype, Heads heads, int pages) {
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
  // Column d of the value at `slot`.
  float value(int64_t slot, int head, int d) const {
    const int64_t row =
        (slot / kPageTokens * layer_.kv_heads + head) * kPageTokens + slot % kPageTokens;
    const size_t at = row * layer_.head_dim + d;
    return layer_.dtype == DType::kF32 ? values_[at] : Bf16ToFloat(values16_[at]);
  }
  int64_t slot(int token, int first_page = 0) const {
    return int64_t{table_[first_page + token / kPageTokens]} * kPageTokens + token % kPageTokens;
  }

 private:
  KvLayer layer_;
  std::vector<float> keys_, values_;
  std::vector<uint16_t> keys16_, values16_;
  std::vector<int32_t> table_;
};

// Ancestor bits of a tree. parents[0] is -1, and a parent comes before its children.
inline std::vector<uint64_t> AncestorBits(const std::vector<int>& parents, int words) {
  std::vector<uint64_t> bits(parents.size() * words, 0);
  for (size_t i = 0; i < parents.size(); ++i) {
    for (int j = static_cast<int>(i); j >= 0; j = parents[j]) {
      bits[i * words + j / 64] |= uint64_t{1} << (j % 64);
    }
  }
  return bits;
}

inline std::vector<int> RandomParents(int rows, uint32_t seed) {
  std::mt19937 engine(seed);
  std::vector<int> parents = {-1};
  for (int i = 1; i < rows; ++i) parents.push_back(static_cast<int>(engine() % i));
  return parents;
}

inline std::vector<int32_t> TreePositions(const std::vector<int>& parents, int cached) {
  std::vector<int32_t> positions;
  for (const int parent : parents) positions.push_back(parent < 0 ? cached : positions[parent] + 1);
  return positions;
}

// The spans of one call: a tree, two chains, a block, and a path that is longer than a window.
struct RaggedBatch {
  explicit RaggedBatch(const Cache& cache)
      : trees{RandomParents(70, 5), std::vector<int>(60)}, positions(TreePositions(trees[0], 45)) {
    std::iota(trees[1].begin(), trees[1].end(), -1);
    for (const std::vector<int>& tree : trees) bits.push_back(AncestorBits(tree, 2));
    spans.resize(5);
    spans[0] = {0, 70, 45, cache.pages(0), RowMask::kAncestors, bits[0].data(), 2};
    spans[1] = {70, 1, 0, cache.pages(20), RowMask::kCausal, nullptr, 0};
    spans[2] = {71, 19, 16, cache.pages(30), RowMask::kCausal, nullptr, 0};
    spans[3] = {90, 8, 33, cache.pages(40), RowMask::kFull, nullptr, 0};
    spans[4] = {98, 60, 7, cache.pages(50), RowMask::kAncestors, bits[1].data(), 2};
    positions.push_back(0);
    for (int i = 0; i < 19; ++i) positions.push_back(16 + i);
    for (int i = 0; i < 8; ++i) positions.push_back(33 + i);
    for (int i = 0; i < 60; ++i) positions.push_back(7 + i);
  }
  RaggedBatch(const RaggedBatch&) = delete;
  RaggedBatch& operator=(const RaggedBatch&) = delete;

  // Whether row i of `span` sees token `token` of its sequence. Derived from the tree, not from
  // masks.
  [[nodiscard]] bool Sees(const AttentionSpan& span, int i, int token, int window) const {
    const int row = token - span.cached;
    const int at = row < 0 ? token : positions[span.first_row + row];
    if (window > 0 && at <= positions[span.first_row + i] - window) return false;
    if (row < 0 || span.mask == RowMask::kFull) return true;
    if (span.mask == RowMask::kCausal) return row <= i;
    const std::vector<int>& tree = trees[&span == &spans[0] ? 0 : 1];
    int ancestor = i;
    while (ancestor > row) ancestor = tree[ancestor];
    return ancestor == row;
  }

  std::vector<int> trees[2];                // Parents of spans 0 and 4.
  std::vector<std::vector<uint64_t>> bits;  // Ancestor bits, one vector per tree.
  std::vector<int32_t> positions;
  std::vector<AttentionSpan> spans;
};

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

// Shapes that cover every code path for group sizes and widths, with both cache types.
inline auto AttentionShapes() {
  return testing::Combine(
      testing::Values(Heads{2, 2, 16}, Heads{6, 2, 64}, Heads{8, 1, 32}, Heads{4, 1, 128}),
      testing::Values(DType::kF32, DType::kBF16));
}

}  // namespace bastion::kernels

#endif  // BASTION_TESTS_KERNELS_ATTENTION_TEST_SUPPORT_H_
