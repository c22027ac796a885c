// The kernels of the mixture of experts against the oracle, in the order in which a block runs
// them.
#include <algorithm>

#include "tests/kernels/cuda/device_test_support.h"
#include "tests/kernels/oracle.h"

namespace bastion::kernels::cuda {
namespace {

class ExpertsTest : public DeviceTest, public testing::WithParamInterface<DType> {
 protected:
  ThreadPool pool_{1};
};

TEST_P(ExpertsTest, RouteAgreesWithTheOracle) {
  const int rows = 7;
  for (const int total : {1, 4, 9, 32, 128, 512}) {
    for (const int chosen : {1, 4, 8}) {
      if (chosen > total) continue;
      for (const bool normalize : {false, true}) {
        const std::vector<float> logits = RandomFloats(rows * total, 1);
        const OnDevice<float> input(logits), weights(size_t(rows) * chosen);
        const OnDevice<int32_t> experts(size_t(rows) * chosen);
        Route({input.data(), experts.data(), weights.data(), rows, total, chosen, normalize},
              *stream_);
        Finish();
        std::vector<int32_t> expected(rows * chosen);
        std::vector<float> expected_weights(rows * chosen);
        Oracle().route({logits.data(), expected.data(), expected_weights.data(), rows, total,
                        chosen, normalize},
                       pool_);
        EXPECT_EQ(experts.Read(), expected) << total << " " << chosen;
        ExpectNear(weights.Read(), expected_weights, "weights");
      }
    }
  }
}

TEST_P(ExpertsTest, TiesAndNansChooseTheLowestIds) {
  const float nan = std::nanf("");
  const std::vector<float> logits = {3, 3, 3, 3, nan, 1, nan, 2, nan, nan, nan, nan};
  const OnDevice<float> input(logits), weights(size_t{6});
  const OnDevice<int32_t> experts(size_t{6});
  Route({input.data(), experts.data(), weights.data(), 3, 4, 2, true}, *stream_);
  Finish();
  EXPECT_EQ(experts.Read(), (std::vector<int32_t>{0, 1, 1, 3, 0, 1}));
}

// Four rows are in use, of six. Each chooses two of five experts.
TEST_P(ExpertsTest, GroupSortsTheChoicesOfTheRowsInUse) {
  const TestRows rows({{0, RowMask::kCausal, ChainParents(4), {0}, {}}}, 6, 1);
  const OnDevice<int32_t> experts({3, 4, 0, 3, 0, 4, 1, 3, 2, 2, 2, 2});
  const OnDevice<int32_t> begins(6, -7), sources(12, -7), places(12, -7), touched(1, -7);
  Group({rows.rows(), experts.data(), begins.data(), sources.data(), places.data(), touched.data(),
         5, 2},
        *stream_);
  Finish();
  EXPECT_EQ(begins.Read(), (std::vector<int32_t>{0, 2, 3, 3, 6, 8}));
  const std::vector<int32_t> expected = {1, 2, 3, 0, 1, 3, 0, 2}, actual = sources.Read();
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), actual.begin()));
  EXPECT_EQ(places.Read(), (std::vector<int32_t>{3, 6, 0, 4, 1, 7, 2, 5, -1, -1, -1, -1}));
  EXPECT_EQ(touched.Read()[0], 4);
}

// Expert 0 has one place, expert 1 none, expert 2 three and expert 3 eleven.
TEST_P(ExpertsTest, ProductsMultiplyEachGroupByItsMatrix) {
  const std::vector<int32_t> begins = {0, 1, 1, 4, 15};
  const int experts = 4, places = 15, rows = 6;
  const double tolerance = GetParam() == DType::kF32 ? 1e-5 : 1e-4;
  for (const int depth : {8, 72, 640}) {
    for (const int columns : {1, 16, 37}) {
      const std::vector<float> x = Rounded(GetParam(), RandomFloats(places * depth, 1));
      const std::vector<float> weight =
          Rounded(GetParam(), RandomFloats(experts * columns * depth, 2, 0.1f));
      std::vector<int32_t> sources(places);
      for (int i = 0; i < places; ++i) sources[i] = (5 * i) % rows;
      const Typed input(GetParam(), x), matrices(GetParam(), weight);
      const OnDevice<int32_t> groups(begins), gathered(sources);
      for (const bool gather : {false, true}) {
        const OnDevice<float> y(size_t(places) * columns, 9.0f);
        ExpertProduct({input.data(), gather ? gathered.data() : nullptr, matrices.data(),
                       groups.data(), y.data(), GetParam(), experts, columns, depth},
                      *stream_);
        Finish();
        const std::vector<float> actual = y.Read();
        for (int e = 0; e < experts; ++e) {
          for (int place = begins[e]; place < begins[e + 1]; ++place) {
            const int row = gather ? sources[place] : place;
            for (int n = 0; n < columns; ++n) {
              double expected = 0;
              for (int k = 0; k < depth; ++k) {
                expected += double{x[row * depth + k]} * weight[(e * columns + n) * depth + k];
              }
              ASSERT_NEAR(actual[place * columns + n], expected, tolerance)
                  << "place " << place << ", column " << n;
            }
          }
        }
      }
    }
  }
}

TEST_P(ExpertsTest, CombineSkipsPadding) {
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

INSTANTIATE_TEST_SUITE_P(Types, ExpertsTest, testing::Values(DType::kF32, DType::kBF16),
                         [](const auto& type) { return Name(type.param); });

}  // namespace
}  // namespace bastion::kernels::cuda
