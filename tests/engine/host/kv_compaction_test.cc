#include "engine/host/kv_compaction.h"

#include <numeric>

#include "engine/host/host_device.h"
#include "engine/model/row_batch.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"

namespace bastion::nn {
namespace {

using kernels::kPageTokens;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int kHeads = 2, kHeadDim = 16;

class KvCompactionTest : public ::testing::TestWithParam<DType> {
 protected:
  KvCompactionTest() {
    cache_ = *KvCache::Create(*device_, {/*layers=*/2, kHeads, kHeadDim, GetParam()}, /*pages=*/4);
    EXPECT_TRUE(cache_->Reserve(table_, 3 * kPageTokens).ok());
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
  // Calls use(rows, walk) with a tree after `cached` tokens whose nodes on `path` were accepted.
  template <typename Use>
  void WithTree(Position cached, const std::vector<NodeIndex>& path, Use use) {
    const int count = path.empty() ? 1 : path.back().value() + 1;
    std::vector<int64_t> slots(count);
    for (int i = 0; i < count; ++i) slots[i] = table_.slot(cached + i);
    const std::vector<int32_t> used = {count, 1}, first_rows = {0, count};
    kernels::Rows rows;
    rows.used = used.data();
    rows.slots = slots.data();
    rows.first_rows = first_rows.data();
    kernels::WalkResult result = {.path_length = static_cast<int32_t>(path.size())};
    std::vector<int32_t> paths;
    for (const NodeIndex node : path) paths.push_back(node.value());
    paths.resize(count);
    use(rows, WalkArgs{.results = &result, .paths = paths.data()});
  }
  void Compact(Position cached, const std::vector<NodeIndex>& path) {
    WithTree(cached, path, [&](const kernels::Rows& rows, const WalkArgs& walk) {
      CommitRows(device_->host(), rows, {.walk = walk, .cache = cache_.get()});
    });
  }
  KvMoves Moves(Position cached, const std::vector<NodeIndex>& path) {
    KvMoves moves;
    WithTree(cached, path,
             [&](const kernels::Rows& rows, const WalkArgs& walk) { moves = MovesOf(rows, walk); });
    return moves;
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
    const kernels::KvLayer memory = cache_->layer(layer);
    void* const data = key ? memory.keys : memory.values;
    if (GetParam() == DType::kF32) {
      static_cast<float*>(data)[Index(key, place)] = static_cast<float>(value);
    } else {
      static_cast<uint16_t*>(data)[Index(key, place)] = static_cast<uint16_t>(value);
    }
  }
  int Get(int layer, bool key, const Place& place) const {
    const kernels::KvLayer memory = cache_->layer(layer);
    const void* const data = key ? memory.keys : memory.values;
    return GetParam() == DType::kF32
               ? static_cast<int>(static_cast<const float*>(data)[Index(key, place)])
               : static_cast<const uint16_t*>(data)[Index(key, place)];
  }

  kernels::ThreadPool pool_{2};
  std::shared_ptr<Device> device_ = MakeHostDevice(kernels::CpuBackend(), pool_);
  std::unique_ptr<KvCache> cache_;
  PageTable table_;
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
  EXPECT_THAT(Moves(3, {1, 2, 3}).sources, IsEmpty());
  const KvMoves moves = Moves(3, {1, 3});
  EXPECT_THAT(moves.sources, ElementsAre(table_.slot(6)));
  EXPECT_THAT(moves.destinations, ElementsAre(table_.slot(5)));
}

TEST_P(KvCompactionTest, ARejectedTreeMovesNothing) {
  EXPECT_THAT(Moves(3, {}).sources, IsEmpty());
}

TEST_P(KvCompactionTest, FeaturesOfTheRootAndOfThePathAreKept) {
  const std::vector<float> features = {0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5};  // [4, 2]
  std::vector<float> kept(4);
  WithTree(0, {3}, [&](const kernels::Rows& rows, const WalkArgs& walk) {
    CommitRows(device_->host(), rows,
               {.walk = walk,
                .cache = cache_.get(),
                .features = features.data(),
                .kept = kept.data(),
                .feature_width = 2,
                .type = DType::kF32});
  });
  EXPECT_THAT(kept, ElementsAre(0, 0.5, 3, 3.5));
}

INSTANTIATE_TEST_SUITE_P(Types, KvCompactionTest, ::testing::Values(DType::kF32, DType::kBF16),
                         [](const auto& type) { return Name(type.param); });

}  // namespace
}  // namespace bastion::nn
