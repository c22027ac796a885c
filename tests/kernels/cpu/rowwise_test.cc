#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/kernel_test_support.h"

namespace bastion::kernels {
namespace {

TEST(RmsNormTest, AgreesWithTheReferenceAtEveryWidth) {
  ThreadPool pool(2);
  for (const int width : {1, 15, 16, 64, 100, 320}) {
    const std::vector<float> x = RandomFloats(5 * width, 1), weight = RandomFloats(width, 2);
    std::vector<float> expected(x.size()), actual(x.size());
    ReferenceBackend().rms_norm({x.data(), weight.data(), expected.data(), 5, width, 1e-6f}, pool);
    ForEachInstructionSet([&](const char* name) {
      CpuBackend().rms_norm({x.data(), weight.data(), actual.data(), 5, width, 1e-6f}, pool);
      ExpectNear(actual, expected, name);
    });
  }
}

TEST(SiluMulTest, AgreesWithTheReferenceAtEveryWidth) {
  ThreadPool pool(2);
  for (const int width : {1, 15, 16, 64, 100}) {
    const std::vector<float> gate_up = RandomFloats(3 * 2 * width, 1, 3.0f);
    std::vector<float> expected(3 * width), actual(3 * width);
    ReferenceBackend().silu_mul({gate_up.data(), expected.data(), 3, width}, pool);
    ForEachInstructionSet([&](const char* name) {
      CpuBackend().silu_mul({gate_up.data(), actual.data(), 3, width}, pool);
      ExpectNear(actual, expected, name);
    });
  }
}

TEST(EmbedTest, GathersRowsOfBothTypes) {
  ThreadPool pool(1);
  const std::vector<float> table = RandomFloats(10 * 24, 3);
  const std::vector<uint16_t> table16 = ToBf16(table);
  const int32_t tokens[] = {9, 0, 9};
  std::vector<float> y(3 * 24);
  CpuBackend().embed({tokens, table.data(), DType::kF32, y.data(), 3, 24}, pool);
  EXPECT_TRUE(SameBits(y.data(), table.data() + 9 * 24, 24));
  EXPECT_TRUE(SameBits(y.data() + 24, table.data(), 24));
  CpuBackend().embed({tokens, table16.data(), DType::kBF16, y.data(), 3, 24}, pool);
  EXPECT_EQ(y[5], Bf16ToFloat(table16[9 * 24 + 5]));
}

// Runs qkv() on one backend with an empty cache and returns the query and the cached keys and
// values.
std::vector<float> RunQkv(const Backend& backend, bool with_query) {
  ThreadPool pool(2);
  const int rows = 4, heads = 4, kv_heads = 2, dim = 32, stride = (heads + 2 * kv_heads) * dim;
  std::vector<float> qkv = RandomFloats(size_t(rows) * stride, 4);
  const std::vector<float> query_norm = RandomFloats(dim, 5), key_norm = RandomFloats(dim, 6);
  const std::vector<float> table = RandomFloats(50 * dim, 7);
  const int32_t positions[] = {0, 7, 8, 49};
  const int64_t slots[] = {33, 2, 17, 16};
  std::vector<float> keys(3 * 16 * kv_heads * dim), values(keys.size());
  QkvArgs args;
  args.query = with_query ? qkv.data() : nullptr;
  args.key = qkv.data() + heads * dim;
  args.value = args.key + kv_heads * dim;
  args.query_norm = query_norm.data();
  args.key_norm = key_norm.data();
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

TEST(QkvTest, AgreesWithTheReferenceWithAndWithoutQueries) {
  for (const bool with_query : {true, false}) {
    const std::vector<float> expected = RunQkv(ReferenceBackend(), with_query);
    ForEachInstructionSet(
        [&](const char* name) { ExpectNear(RunQkv(CpuBackend(), with_query), expected, name); });
  }
}

TEST(KvMoveTest, OverlappingMovesReadEverythingBeforeWriting) {
  ThreadPool pool(1);
  const int kv_heads = 2, dim = 16;
  for (const Backend* backend : {&CpuBackend(), &ReferenceBackend()}) {
    std::vector<float> keys = RandomFloats(2 * 16 * kv_heads * dim, 8), values = keys;
    const std::vector<float> before = keys;
    const KvLayer layer = {DType::kF32, kv_heads, dim, keys.data(), values.data()};
    // A rotation. Moving the slots one by one would copy slot 3 everywhere.
    const int64_t sources[] = {3, 4, 20}, destinations[] = {4, 20, 3};
    backend->kv_move({layer, sources, destinations, 3}, pool);
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
}

}  // namespace
}  // namespace bastion::kernels
