#include <algorithm>
#include <random>

#include "tests/kernels/cuda/device_test_support.h"
#include "tests/kernels/oracle.h"

namespace bastion::kernels::cuda {
namespace {

// Transposes the blocks of one layer's keys, from the device's layout [pages, G, 16, D] to the
// oracle's [pages, G, D, 16], or back.
std::vector<float> Transposed(const std::vector<float>& keys, int from_rows, int from_columns) {
  const size_t block = size_t(from_rows) * from_columns;
  std::vector<float> result(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    const size_t within = i % block, row = within / from_columns, column = within % from_columns;
    result[i - within + column * from_rows + row] = keys[i];
  }
  return result;
}

// The spans of a step and their accepted paths.
struct Accepted {
  std::vector<TestSpan> spans;
  std::vector<std::vector<int32_t>> paths;  // Accepted rows of each span.
  std::vector<bool> failed;                 // True: path length −1, nothing is kept.

  [[nodiscard]] int rows() const {
    int rows = 0;
    for (const TestSpan& span : spans) rows += static_cast<int>(span.parents.size());
    return rows;
  }
};

struct CacheShape {
  int layers = 1;
  int kv_heads = 1;
  int head_dim = 16;
  int pages = 1;

  [[nodiscard]] size_t layer_size() const {
    return size_t(pages) * kv_heads * kPageTokens * head_dim;
  }
};

class CommitTest : public DeviceTest, public testing::WithParamInterface<DType> {
 protected:
  // Adds a span of `rows` rows after `cached` tokens, with its own pages and the accepted `path`.
  void AddSpan(Accepted& step, int cached, int rows, std::vector<int32_t> path) {
    TestSpan span = {cached, RowMask::kCausal, ChainParents(rows), {}, {}};
    for (int token = 0; token < cached + rows; token += kPageTokens) {
      span.pages.push_back(free_pages_.back());
      free_pages_.pop_back();
    }
    step.spans.push_back(span);
    step.paths.push_back(std::move(path));
    step.failed.push_back(false);
  }
  void AddRandomSpan(Accepted& step, int cached, int rows, int length) {
    std::vector<int32_t> nodes(rows - 1);
    std::iota(nodes.begin(), nodes.end(), 1);
    std::shuffle(nodes.begin(), nodes.end(), random_);
    nodes.resize(length);
    std::sort(nodes.begin(), nodes.end());
    AddSpan(step, cached, rows, nodes);
  }

  void ExpectCommits(const Accepted& step, const CacheShape& shape, int feature_width);
  // Expects that keys and values of all layers were moved as the oracle moves them.
  void ExpectMoved(const Accepted& step, const CacheShape& shape, const TestRows& rows,
                   const std::vector<std::vector<float>>& before);

  std::mt19937 random_{1};
  std::vector<int32_t> free_pages_;
  std::vector<Typed> caches_;  // Keys and values of layer 0, of layer 1, …
  ThreadPool pool_{1};
};

void CommitTest::ExpectMoved(const Accepted& step, const CacheShape& shape, const TestRows& rows,
                             const std::vector<std::vector<float>>& before) {
  std::vector<int64_t> sources, destinations;
  int first = 0;
  for (size_t b = 0; b < step.spans.size(); ++b) {
    for (size_t k = 0; k < step.paths[b].size() && !step.failed[b]; ++k) {
      sources.push_back(rows.slots()[first + step.paths[b][k]]);
      destinations.push_back(rows.slots()[first + k + 1]);
    }
    first += static_cast<int>(step.spans[b].parents.size());
  }
  for (int layer = 0; layer < shape.layers; ++layer) {
    std::vector<float> keys = Transposed(before[2 * layer], kPageTokens, shape.head_dim);
    std::vector<float> values = before[2 * layer + 1];
    const KvLayer cache = {DType::kF32, shape.kv_heads, shape.head_dim, keys.data(), values.data()};
    Oracle().kv_move({cache, sources.data(), destinations.data(), static_cast<int>(sources.size())},
                     pool_);
    EXPECT_EQ(caches_[2 * layer].Read(), Transposed(keys, shape.head_dim, kPageTokens))
        << "keys of layer " << layer;
    EXPECT_EQ(caches_[2 * layer + 1].Read(), values) << "values of layer " << layer;
  }
}

void CommitTest::ExpectCommits(const Accepted& step, const CacheShape& shape, int feature_width) {
  const int row_capacity = step.rows() + 3, span_capacity = static_cast<int>(step.spans.size()) + 2;
  const TestRows rows(step.spans, row_capacity, span_capacity);
  std::vector<std::vector<float>> before;
  std::vector<DeviceKvLayer> layers;
  caches_.clear();
  for (int i = 0; i < 2 * shape.layers; ++i) {
    before.push_back(Rounded(GetParam(), RandomFloats(shape.layer_size(), 10 + i)));
    caches_.emplace_back(GetParam(), before.back());
  }
  for (int layer = 0; layer < shape.layers; ++layer) {
    layers.push_back({GetParam(), shape.kv_heads, shape.head_dim, caches_[2 * layer].data(),
                      caches_[2 * layer + 1].data()});
  }
  if (layers.empty()) layers.resize(1);  // An allocation must not be empty.
  // Unused spans have invalid results, which must be ignored.
  std::vector<WalkResult> results(span_capacity, {50, 0, 1 << 20});
  std::vector<int32_t> paths(row_capacity, -1);
  const std::vector<float> features =
      Rounded(GetParam(), RandomFloats(size_t(row_capacity) * feature_width, 9));
  std::vector<float> expected;
  int first = 0, kept = 0;
  for (size_t b = 0; b < step.spans.size(); ++b) {
    const std::vector<int32_t>& path = step.paths[b];
    std::copy(path.begin(), path.end(), paths.begin() + first);
    results[b] = {step.failed[b] ? -1 : static_cast<int>(path.size()), 0, kept};
    for (int k = 0; k <= results[b].path_length; ++k) {
      const auto row = features.begin() + (first + (k == 0 ? 0 : path[k - 1])) * feature_width;
      expected.insert(expected.end(), row, row + feature_width);
    }
    kept += results[b].path_length + 1;
    first += static_cast<int>(step.spans[b].parents.size());
  }
  expected.resize(size_t(row_capacity) * feature_width, 7.0f);
  const OnDevice<DeviceKvLayer> on_device(layers);
  const OnDevice<WalkResult> walked(results);
  const OnDevice<int32_t> accepted(paths);
  const Typed from(GetParam(), feature_width > 0 ? features : std::vector<float>(1));
  const Typed to(GetParam(), std::vector<float>(std::max<size_t>(expected.size(), 1), 7.0f));
  Commit({rows.rows(), walked.data(), accepted.data(), on_device.data(), shape.layers,
          shape.kv_heads, shape.head_dim, GetParam(), from.data(), to.data(), feature_width},
         *stream_);
  Finish();
  EXPECT_TRUE(feature_width == 0 || to.Read() == expected) << "features";
  ExpectMoved(step, shape, rows, before);
}

TEST_P(CommitTest, MovesPathsInAllLayersAndGathersFeatures) {
  for (const CacheShape shape :
       {CacheShape{3, 2, 64, 40}, CacheShape{1, 1, 16, 40}, CacheShape{2, 8, 128, 40}}) {
    free_pages_.resize(shape.pages);
    std::iota(free_pages_.begin(), free_pages_.end(), 0);
    std::shuffle(free_pages_.begin(), free_pages_.end(), random_);
    Accepted step;
    AddRandomSpan(step, 13, 33, 9);
    AddSpan(step, 0, 1, {});
    // More rows than a thread holds at a time, and more than there are feature blocks.
    AddRandomSpan(step, 30, 65, 40);
    AddSpan(step, 16, 6, {1, 2, 3, 4, 5});   // All rows are in place already.
    AddSpan(step, 5, 20, {1, 2, 4, 5, 19});  // Some rows are in place.
    AddSpan(step, 7, 4, {2, 3});
    step.failed.back() = true;
    AddSpan(step, 31, 18, {17});
    AddRandomSpan(step, 3, 64, 62);  // Nearly all rows: sources and destinations overlap.
    ExpectCommits(step, shape, 24);
  }
}

TEST_P(CommitTest, GathersFeaturesWithoutMovesAndMovesWithoutFeatures) {
  free_pages_ = {3, 1, 0, 2};
  Accepted step;
  AddSpan(step, 10, 9, {2, 3, 8});
  ExpectCommits(step, {0, 2, 32, 4}, 4096);
  ExpectCommits(step, {2, 2, 32, 4}, 0);
}

TEST_P(CommitTest, RaiseFlagStoresTheValue) {
  const OnDevice<uint64_t> value(std::vector<uint64_t>{5});
  auto flag = Memory::OnHost(sizeof(uint64_t), "a flag");
  ASSERT_TRUE(flag.ok());
  RaiseFlag({value.data(), flag->as<uint64_t>()}, *stream_);
  EXPECT_TRUE(stream_->AwaitFlag(flag->as<uint64_t>(), 5).ok());
  EXPECT_EQ(*flag->as<uint64_t>(), 5u);
}

INSTANTIATE_TEST_SUITE_P(Types, CommitTest, testing::Values(DType::kF32, DType::kBF16),
                         [](const auto& type) { return Name(type.param); });

}  // namespace
}  // namespace bastion::kernels::cuda
