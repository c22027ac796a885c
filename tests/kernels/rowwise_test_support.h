// Calls of qkv(), kv_move() and convolve() that tests run on every backend.
#ifndef BASTION_TESTS_KERNELS_ROWWISE_TEST_SUPPORT_H_
#define BASTION_TESTS_KERNELS_ROWWISE_TEST_SUPPORT_H_

#include <vector>

#include "tests/kernels/kernel_test_support.h"

namespace bastion::kernels {

// What a call of qkv() does.
struct QkvCase {
  bool with_query = true;
  bool with_norms = true;
  int rotary_dims = 0;  // 0: all 32.
};

// Runs qkv() on a backend with a new cache and returns the resulting queries, keys and values.
inline std::vector<float> RunQkv(const Backend& backend, const QkvCase& test) {
  ThreadPool pool(2);
  const int rows = 4, heads = 4, kv_heads = 2, dim = 32, stride = (heads + 2 * kv_heads) * dim;
  std::vector<float> qkv = RandomFloats(size_t(rows) * stride, 4);
  const std::vector<float> query_norm = RandomFloats(dim, 5), key_norm = RandomFloats(dim, 6);
  const std::vector<float> table = RandomFloats(50 * dim, 7);
  const int32_t positions[] = {0, 7, 8, 49};
  const int64_t slots[] = {33, 2, 17, 16};
  std::vector<float> keys(3 * 16 * kv_heads * dim), values(keys.size());
  QkvArgs args;
  args.query = test.with_query ? qkv.data() : nullptr;
  args.key = qkv.data() + heads * dim;
  args.value = args.key + kv_heads * dim;
  if (test.with_norms) {
    args.query_norm = query_norm.data();
    args.key_norm = key_norm.data();
  }
  args.rotary_dims = test.rotary_dims;
  args.cosine_sine = table.data();
  args.positions = positions;
  args.slots = slots;
  args.cache = {DType::kF32, kv_heads, dim, keys.data(), values.data()};
  args.rows = rows;
  args.query_heads = heads;
  args.query_stride = args.kv_stride = stride;
  backend.qkv(args, pool);
  std::vector<float> all = qkv;
  all.insert(all.end(), keys.begin(), keys.end());
  all.insert(all.end(), values.begin(), values.end());
  return all;
}

// Calls body(case) for queries or none, norms or none, and full and partial rotations.
template <typename Body>
void ForEachQkvCase(Body body) {
  for (const bool with_query : {true, false}) {
    for (const bool with_norms : {true, false}) {
      for (const int rotary_dims : {0, 2, 16, 20, 30}) body({with_query, with_norms, rotary_dims});
    }
  }
}

// Calls run(x, number of rows) -> y, with `width` elements per row of x and of y. Expects that a
// row has the same bits alone and in a batch.
template <typename Run>
void ExpectRowInvariance(const std::vector<float>& x, int width, Run run) {
  const int rows = static_cast<int>(x.size()) / width;
  const std::vector<float> batched = run(x, rows);
  for (int r = 0; r < rows; ++r) {
    const auto row = x.begin() + static_cast<std::ptrdiff_t>(r) * width;
    const std::vector<float> alone = run({row, row + width}, 1);
    ASSERT_TRUE(SameBits(alone.data(), batched.data() + size_t(r) * width, width)) << "row " << r;
  }
}

// The shapes of a call of convolve().
struct ConvolveCase {
  int width = 0, taps = 0, group = 0, block_rows = 0;
  bool accumulate = false;
};

// Calls body(case) for groups of one element, of whole vectors and of others.
template <typename Body>
void ForEachConvolveCase(Body body) {
  for (const ConvolveCase& shape :
       {ConvolveCase{16, 2, 16, 8}, ConvolveCase{320, 2, 16, 8}, ConvolveCase{48, 3, 6, 4},
        ConvolveCase{20, 1, 20, 3}, ConvolveCase{7, 5, 1, 2}}) {
    for (const bool accumulate : {false, true}) {
      ConvolveCase test = shape;
      test.accumulate = accumulate;
      body(test);
    }
  }
}

// The inputs of a call for side 1 of a convolution: its coefficients follow those of side 0.
struct ConvolveInputs {
  ConvolveInputs(const ConvolveCase& shape, int blocks)
      : test(shape), rows(blocks * shape.block_rows) {
    x = RandomFloats(size_t(rows) * test.width, 11);
    base = RandomFloats(size_t(test.taps) * test.width, 12);
    coefficients = RandomFloats(size_t(rows) * stride(), 13);
    y = RandomFloats(x.size(), 14);
  }
  [[nodiscard]] int side() const { return test.taps * (test.width / test.group); }
  [[nodiscard]] int stride() const { return 2 * side(); }
  // The arguments for the blocks from `first` on.
  [[nodiscard]] ConvolveArgs Args(int first, int blocks) {
    const int64_t row = int64_t{first} * test.block_rows;
    return {x.data() + row * test.width,
            base.data(),
            coefficients.data() + row * stride() + side(),
            y.data() + row * test.width,
            blocks * test.block_rows,
            test.width,
            test.taps,
            test.group,
            test.block_rows,
            stride(),
            test.accumulate};
  }

  const ConvolveCase test;
  const int rows;
  std::vector<float> x, base, coefficients, y;
};

// The result of convolve() on a backend, for three blocks.
inline std::vector<float> RunConvolve(const Backend& backend, const ConvolveCase& test) {
  ThreadPool pool(2);
  ConvolveInputs inputs(test, 3);
  backend.convolve(inputs.Args(0, 3), pool);
  return inputs.y;
}

// Moves slot 3 to 4, 4 to 20 and 20 to 3. A backend that moved them one by one would copy slot 3 to
// all of them.
inline void ExpectCyclicMoves(const Backend& backend) {
  ThreadPool pool(1);
  const int kv_heads = 2, dim = 16;
  std::vector<float> keys = RandomFloats(2 * 16 * kv_heads * dim, 8), values = keys;
  const std::vector<float> before = keys;
  const KvLayer layer = {DType::kF32, kv_heads, dim, keys.data(), values.data()};
  const int64_t sources[] = {3, 4, 20}, destinations[] = {4, 20, 3};
  backend.kv_move({layer, sources, destinations, 3}, pool);
  const auto key = [&](const std::vector<float>& all, int slot, int d) {
    return all[size_t(slot / 16) * kv_heads * dim * 16 + size_t(dim + d) * 16 + slot % 16];
  };
  for (int d = 0; d < dim; ++d) {  // Head 1.
    EXPECT_EQ(key(keys, 4, d), key(before, 3, d));
    EXPECT_EQ(key(keys, 20, d), key(before, 4, d));
    EXPECT_EQ(key(keys, 3, d), key(before, 20, d));
    EXPECT_EQ(key(keys, 5, d), key(before, 5, d));
  }
}

}  // namespace bastion::kernels

#endif  // BASTION_TESTS_KERNELS_ROWWISE_TEST_SUPPORT_H_
