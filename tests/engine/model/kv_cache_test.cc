#include "engine/model/kv_cache.h"

#include <algorithm>
#include <set>

#include "engine/host/host_device.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"

namespace bastion::nn {
namespace {

constexpr KvShape kShape = {.layers = 3, .kv_heads = 2, .head_dim = 32, .dtype = DType::kBF16};
constexpr int kPages = 5;

std::unique_ptr<KvCache> Create(const KvShape& shape, int pages) {
  static auto* const pool = new kernels::ThreadPool(1);
  return *KvCache::Create(*MakeHostDevice(kernels::CpuBackend(), *pool), shape, pages);
}

TEST(KvCacheTest, LayersHaveTheShapeOfTheModel) {
  const auto cache = Create(kShape, kPages);
  EXPECT_EQ(cache->total_pages(), kPages);
  for (int index = 0; index < kShape.layers; ++index) {
    const kernels::KvLayer layer = cache->layer(index);
    EXPECT_EQ(layer.dtype, DType::kBF16);
    EXPECT_EQ(cache->table()[index].keys, layer.keys);
    EXPECT_EQ(layer.kv_heads, 2);
    EXPECT_EQ(layer.head_dim, 32);
  }
}

// Writes every element of every layer and reads it back: no two buffers overlap, and each has room
// for all pages.
TEST(KvCacheTest, EveryLayerHasMemoryForAllPages) {
  const auto cache = Create(kShape, kPages);
  const size_t elements = cache->layer(0).page_elements() * kPages;
  const auto fill = [&](void* data, int value) {
    std::fill_n(static_cast<uint16_t*>(data), elements, static_cast<uint16_t>(value));
  };
  const auto holds = [&](const void* data, int value) {
    const auto* begin = static_cast<const uint16_t*>(data);
    return std::all_of(begin, begin + elements, [&](uint16_t found) { return found == value; });
  };
  for (int index = 0; index < kShape.layers; ++index) {
    fill(cache->layer(index).keys, 2 * index + 1);
    fill(cache->layer(index).values, 2 * index + 2);
  }
  for (int index = 0; index < kShape.layers; ++index) {
    EXPECT_TRUE(holds(cache->layer(index).keys, 2 * index + 1)) << index;
    EXPECT_TRUE(holds(cache->layer(index).values, 2 * index + 2)) << index;
  }
}

TEST(KvCacheTest, MemoryIsZeroBeforeItIsWritten) {
  const auto cache = Create({.layers = 1, .kv_heads = 1, .head_dim = 16, .dtype = DType::kF32}, 2);
  const auto* keys = static_cast<const float*>(cache->layer(0).keys);
  EXPECT_EQ(std::count(keys, keys + cache->layer(0).page_elements() * 2, 0.0f),
            static_cast<std::ptrdiff_t>(cache->layer(0).page_elements() * 2));
}

TEST(KvCacheTest, APageIsReservedOnceForAllLayers) {
  const auto cache = Create(kShape, kPages);
  PageTable table;
  ASSERT_TRUE(cache->Reserve(table, 2 * kernels::kPageTokens).ok());
  EXPECT_EQ(cache->free_pages(), kPages - 2);
}

}  // namespace
}  // namespace bastion::nn
