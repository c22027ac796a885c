// The kernels of the mixture of experts against the oracle, in the order in which a block runs
// them.
#include <algorithm>

#include "tests/kernels/cuda/device_test_support.h"
#include "tests/kernels/oracle.h"

namespace bastion::kernels::cuda {
namespace {

// A launch of Route, and what it wrote.
class TestRoute {
 public:
  TestRoute(const std::vector<float>& logits, int used, int experts, int chosen,
            bool normalize = true)
      : rows_count_(static_cast<int>(logits.size()) / experts),
        rows_({{0, RowMask::kCausal, ChainParents(used), PagesFor(used), {}}}, rows_count_, 1),
        logits_(logits),
        experts_(size_t(rows_count_) * chosen, -7),
        begins_(size_t(experts) + 1, -7),
        sources_(size_t(rows_count_) * chosen, -7),
        places_(size_t(rows_count_) * chosen, -7),
        counts_(size_t{2}, -7),
        weights_(size_t(rows_count_) * chosen),
        tiles_(MaxExpertTiles(rows_count_, chosen, experts), ExpertRows{-7, -7, -7, -7}),
        arrived_(size_t{1}) {
    args.route = {logits_.data(), experts_.data(), weights_.data(), rows_count_,
                  experts,        chosen,          normalize};
    args.rows = rows_.rows();
    args.begins = begins_.data();
    args.sources = sources_.data();
    args.places = places_.data();
    args.touched = counts_.data();
    args.tiles = tiles_.data();
    args.tile_count = counts_.data() + 1;
    args.arrived = arrived_.data();
  }

  [[nodiscard]] std::vector<int32_t> experts() const { return experts_.Read(); }
  [[nodiscard]] std::vector<float> weights() const { return weights_.Read(); }
  [[nodiscard]] std::vector<int32_t> begins() const { return begins_.Read(); }
  [[nodiscard]] std::vector<int32_t> sources() const { return sources_.Read(); }
  [[nodiscard]] std::vector<int32_t> places() const { return places_.Read(); }
  [[nodiscard]] int touched() const { return counts_.Read()[0]; }
  // {expert, first, count} of each tile.
  [[nodiscard]] std::vector<std::vector<int32_t>> tiles() const {
    std::vector<std::vector<int32_t>> found;
    for (const ExpertRows& rows : tiles_.Read()) {
      found.push_back({rows.expert, rows.first, rows.count});
    }
    found.resize(counts_.Read()[1]);
    return found;
  }

  GroupedRouteArgs args;

 private:
  static std::vector<int32_t> PagesFor(int rows) {
    return std::vector<int32_t>((rows + kPageTokens - 1) / kPageTokens);
  }

  int rows_count_;
  TestRows rows_;
  OnDevice<float> logits_;
  OnDevice<int32_t> experts_, begins_, sources_, places_, counts_;
  OnDevice<float> weights_;
  OnDevice<ExpertRows> tiles_;
  OnDevice<uint32_t> arrived_;
};

class ExpertsTest : public DeviceTest {
 protected:
  ThreadPool pool_{1};
};

TEST_F(ExpertsTest, RouteAgreesWithTheOracle) {
  const int rows = 7;
  for (const int total : {1, 4, 9, 32, 128, 129, 512}) {
    for (const int chosen : {1, 4, 8}) {
      if (chosen > total) continue;
      for (const bool normalize : {false, true}) {
        const std::vector<float> logits = RandomFloats(rows * total, 1);
        const TestRoute route(logits, rows, total, chosen, normalize);
        Route(route.args, *stream_);
        Finish();
        std::vector<int32_t> expected(rows * chosen);
        std::vector<float> expected_weights(rows * chosen);
        Oracle().route({logits.data(), expected.data(), expected_weights.data(), rows, total,
                        chosen, normalize},
                       pool_);
        EXPECT_EQ(route.experts(), expected) << total << " " << chosen;
        ExpectNear(route.weights(), expected_weights, "weights");
      }
    }
  }
}

TEST_F(ExpertsTest, TiesAndNansChooseTheLowestIds) {
  const float nan = std::nanf("");
  const TestRoute route({3, 3, 3, 3, nan, 1, nan, 2, nan, nan, nan, nan}, 3, 4, 2);
  Route(route.args, *stream_);
  Finish();
  EXPECT_EQ(route.experts(), (std::vector<int32_t>{0, 1, 1, 3, 0, 1}));
}

// Four rows are in use, of six. Each chooses two of five experts.
TEST_F(ExpertsTest, RouteSortsTheChoicesOfTheRowsInUse) {
  std::vector<float> logits(30);
  const int chosen[] = {3, 4, 0, 3, 0, 4, 1, 3, 2, 4, 2, 4};
  for (int i = 0; i < 12; ++i) logits[i / 2 * 5 + chosen[i]] = 1;
  const TestRoute route(logits, 4, 5, 2);
  for (int launch = 0; launch < 2; ++launch) {
    Route(route.args, *stream_);
    Finish();
    EXPECT_EQ(route.begins(), (std::vector<int32_t>{0, 2, 3, 3, 6, 8}));
    EXPECT_EQ(route.sources(), (std::vector<int32_t>{1, 2, 3, 0, 1, 3, 0, 2, -7, -7, -7, -7}));
    EXPECT_EQ(route.places(), (std::vector<int32_t>{3, 6, 0, 4, 1, 7, 2, 5, -1, -1, -1, -1}));
    EXPECT_EQ(route.tiles(),
              (std::vector<std::vector<int32_t>>{{0, 0, 2}, {1, 2, 1}, {3, 3, 3}, {4, 6, 2}}));
    EXPECT_EQ(route.touched(), 4);
  }
}

// 600 rows are several slices, of several blocks. All of them choose expert 2.
TEST_F(ExpertsTest, RouteGroupsManyRowsInTheirOrder) {
  const int rows = 600, experts = 40;
  std::vector<float> logits = RandomFloats(rows * experts, 2);
  for (int row = 0; row < rows; ++row) logits[row * experts + 2] = 100;
  const TestRoute route(logits, rows, experts, 3);
  Route(route.args, *stream_);
  Finish();
  const std::vector<int32_t> choices = route.experts(), begins = route.begins();
  const std::vector<int32_t> sources = route.sources(), places = route.places();
  int place = 0;
  std::vector<std::vector<int32_t>> tiles;
  for (int e = 0; e < experts; ++e) {
    ASSERT_EQ(begins[e], place);
    for (int i = 0; i < rows * 3; ++i) {
      if (choices[i] != e) continue;
      ASSERT_EQ(places[i], place);
      ASSERT_EQ(sources[place], i / 3);
      ++place;
    }
    for (int first = begins[e]; first < place; first += kMaxExpertRows) {
      tiles.push_back({e, first, std::min(place - first, kMaxExpertRows)});
    }
  }
  EXPECT_EQ(begins[experts], rows * 3);
  EXPECT_EQ(begins[3] - begins[2], rows);
  EXPECT_EQ(route.tiles(), tiles);
}

// Expert 0 has one place, expert 1 none, expert 2 three and expert 3 eleven.
TEST_F(ExpertsTest, ProductsInF32MultiplyEachGroupByItsMatrix) {
  const std::vector<int32_t> begins = {0, 1, 1, 4, 15};
  const int experts = 4, places = 15, rows = 6;
  for (const auto& [depth, columns] : {std::pair{8, 1}, {72, 16}, {640, 37}}) {
    const std::vector<float> x = RandomFloats(places * depth, 1);
    const std::vector<float> weight = RandomFloats(experts * columns * depth, 2, 0.1f);
    std::vector<int32_t> sources(places);
    for (int i = 0; i < places; ++i) sources[i] = (5 * i) % rows;
    const OnDevice<float> input(x), matrices(weight);
    const OnDevice<int32_t> groups(begins), gathered(sources);
    for (const bool gather : {false, true}) {
      const OnDevice<float> y(size_t(places) * columns, 9.0f);
      ExpertProductF32({input.data(), gather ? gathered.data() : nullptr, matrices.data(),
                        groups.data(), y.data(), experts, columns, depth},
                       *stream_);
      Finish();
      const std::vector<float> actual = y.Read();
      for (int i = 0; i < places * columns; ++i) {
        const int place = i / columns, n = i % columns, row = gather ? sources[place] : place;
        const int e = place < 1 ? 0 : place < 4 ? 2 : 3;
        double expected = 0;
        for (int k = 0; k < depth; ++k) {
          expected += double{x[row * depth + k]} * weight[(e * columns + n) * depth + k];
        }
        ASSERT_NEAR(actual[i], expected, 1e-5) << "place " << place << ", column " << n;
      }
    }
  }
}

TEST_F(ExpertsTest, CombineSkipsPadding) {
  const int rows = 3, chosen = 2, width = 300;
  const std::vector<float> y = RandomFloats(4 * width, 1), before = RandomFloats(rows * width, 2);
  const std::vector<float> weights = RandomFloats(rows * chosen, 3);
  std::vector<int32_t> places = {3, 0, 1, 2, -1, -1};
  const OnDevice<float> results(y), shares(weights), x(before);
  const OnDevice<int32_t> from(places);
  Combine({results.data(), from.data(), shares.data(), x.data(), rows, chosen, width}, *stream_);
  Finish();
  std::vector<float> expected = before;
  Oracle().combine({y.data(), places.data(), weights.data(), expected.data(), 2, chosen, width},
                   pool_);
  ExpectNear(x.Read(), expected, "rows");
}

}  // namespace
}  // namespace bastion::kernels::cuda
