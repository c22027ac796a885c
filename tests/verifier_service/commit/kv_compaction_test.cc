#include "verifier_service/commit/kv_compaction.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"

namespace bastion::verifier {
namespace {

using kernels::kPageTokens;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int kHeads = 2, kHeadDim = 16;

class KvCompactionTest : public ::testing::TestWithParam<DType> {
 protected:
  KvCompactionTest() : cache_({/*layers=*/2, kHeads, kHeadDim, GetParam()}, /*pages=*/4) {
    EXPECT_TRUE(cache_.Reserve(table_, 3 * kPageTokens).ok());
  }

  // Sets all elements of the key and value at `position`.
  void SetToken(int layer, int position, int value) {
    for (const bool key : {true, false}) {
      for (int head = 0; head < kHeads; ++head) {
        for (int d = 0; d < kHeadDim; ++d) Set(layer, key, {position, head, d}, value);
      }
    }
  }
  bool TokenIs(int layer, int position, int value) const {
    for (const bool key : {true, false}) {
      for (int head = 0; head < kHeads; ++head) {
        for (int d = 0; d < kHeadDim; ++d) {
          if (Get(layer, key, {position, head, d}) != value) return false;
        }
      }
    }
    return true;
  }
  void Compact(Position cached, const std::vector<NodeIndex>& path) {
    KvMoves moves;
    moves.Add(table_, cached, path);
    CompactKv(device_, cache_, /*layers=*/2, moves);
  }

  struct Place {
    int position, head, d;
  };
  size_t Index(bool key, const Place& place) const {
    const int64_t slot = table_.slot(place.position);
    const size_t head_start =
        (size_t(slot / kPageTokens) * kHeads + place.head) * kHeadDim * kPageTokens;
    const size_t offset = slot % kPageTokens;
    return key ? head_start + size_t(place.d) * kPageTokens + offset
               : head_start + offset * kHeadDim + place.d;
  }
  void Set(int layer, bool key, const Place& place, int value) {
    const kernels::KvLayer memory = cache_.layer(layer);
    void* const data = key ? memory.keys : memory.values;
    if (GetParam() == DType::kF32) {
      static_cast<float*>(data)[Index(key, place)] = static_cast<float>(value);
    } else {
      static_cast<uint16_t*>(data)[Index(key, place)] = static_cast<uint16_t>(value);
    }
  }
  int Get(int layer, bool key, const Place& place) const {
    const kernels::KvLayer memory = cache_.layer(layer);
    const void* const data = key ? memory.keys : memory.values;
    return GetParam() == DType::kF32
               ? static_cast<int>(static_cast<const float*>(data)[Index(key, place)])
               : static_cast<const uint16_t*>(data)[Index(key, place)];
  }

  kernels::ThreadPool pool_{2};
  nn::Device device_{&kernels::CpuBackend(), &pool_};
  nn::KvCache cache_;
  nn::PageTable table_;
};

TEST_P(KvCompactionTest, AcceptedRowsMoveDirectlyAfterTheRoot) {
  constexpr Position kCached = 10;
  for (int layer = 0; layer < 2; ++layer) {
    for (int token = 0; token < 20; ++token) SetToken(layer, token, 100 * (layer + 1) + token);
  }
  Compact(kCached, {2, 5, 7});
  for (int layer = 0; layer < 2; ++layer) {
    const int base = 100 * (layer + 1);
    for (int token = 0; token <= kCached; ++token) {
      EXPECT_TRUE(TokenIs(layer, token, base + token)) << "committed tokens and the root stay";
    }
    EXPECT_TRUE(TokenIs(layer, kCached + 1, base + kCached + 2));
    EXPECT_TRUE(TokenIs(layer, kCached + 2, base + kCached + 5));
    EXPECT_TRUE(TokenIs(layer, kCached + 3, base + kCached + 7));
  }
}

// Destinations overlap later sources: row 2 goes to 1 and row 3 to 2.
TEST_P(KvCompactionTest, EveryRowIsReadBeforeAnyIsWritten) {
  for (int token = 0; token < 8; ++token) SetToken(0, token, token + 1);
  Compact(0, {2, 3, 4, 5});
  for (int k = 1; k <= 4; ++k) EXPECT_TRUE(TokenIs(0, k, k + 2)) << k;
}

TEST_P(KvCompactionTest, MovesCrossPages) {
  const Position cached = kPageTokens - 2;
  for (int token = 0; token < 2 * kPageTokens + 8; ++token) SetToken(1, token, token);
  Compact(cached, {1, kPageTokens + 3});
  EXPECT_TRUE(TokenIs(1, cached + 1, cached + 1));
  EXPECT_TRUE(TokenIs(1, cached + 2, cached + kPageTokens + 3));
}

TEST_P(KvCompactionTest, RowsAlreadyInPlaceAreNotMoved) {
  KvMoves moves;
  moves.Add(table_, 3, {1, 2, 3});
  EXPECT_THAT(moves.sources, IsEmpty());
  moves.Add(table_, 3, {1, 3});
  EXPECT_THAT(moves.sources, ElementsAre(table_.slot(6)));
  EXPECT_THAT(moves.destinations, ElementsAre(table_.slot(5)));
}

TEST_P(KvCompactionTest, ARejectedTreeMovesNothing) {
  KvMoves moves;
  moves.Add(table_, 3, {});
  EXPECT_THAT(moves.sources, IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Types, KvCompactionTest, ::testing::Values(DType::kF32, DType::kBF16),
                         [](const auto& type) { return Name(type.param); });

}  // namespace
}  // namespace bastion::verifier
