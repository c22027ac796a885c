#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/cpu/cpu_backend.h"
#include "tests/kernels/rowwise_test_support.h"

namespace bastion::kernels {
namespace {

struct Routes {
  std::vector<int32_t> experts;
  std::vector<float> weights;
};

Routes RunRoute(const std::vector<float>& logits, int total, int chosen, bool normalize) {
  ThreadPool pool(3);
  const int rows = static_cast<int>(logits.size()) / total;
  Routes routes;
  routes.experts.resize(size_t(rows) * chosen);
  routes.weights.resize(size_t(rows) * chosen);
  CpuBackend().route(
      {logits.data(), routes.experts.data(), routes.weights.data(), rows, total, chosen, normalize},
      pool);
  return routes;
}

TEST(RouteTest, ChoosesTheLargestLogitsInAscendingOrder) {
  ForEachInstructionSet([](const char* name) {
    // The exponentials are 1, 2, 4, 1 and 2. The tie of experts 1 and 4 goes to the lower one.
    const float two = std::log(2.0f), four = std::log(4.0f);
    const std::vector<float> logits = {0, two, four, 0, two};
    const Routes plain = RunRoute(logits, 5, 2, false);
    EXPECT_EQ(plain.experts, (std::vector<int32_t>{1, 2})) << name;
    EXPECT_NEAR(plain.weights[0], 0.2f, 1e-6) << name;
    EXPECT_NEAR(plain.weights[1], 0.4f, 1e-6) << name;
    const Routes normalized = RunRoute(logits, 5, 2, true);
    EXPECT_EQ(normalized.experts, plain.experts) << name;
    EXPECT_NEAR(normalized.weights[0], 1 / 3.0f, 1e-6) << name;
    EXPECT_NEAR(normalized.weights[1], 2 / 3.0f, 1e-6) << name;
  });
}

TEST(RouteTest, AllExpertsCanBeChosen) {
  const Routes routes = RunRoute(RandomFloats(3 * 17, 1), 17, 17, false);
  for (int row = 0; row < 3; ++row) {
    float sum = 0;
    for (int e = 0; e < 17; ++e) {
      EXPECT_EQ(routes.experts[row * 17 + e], e);
      sum += routes.weights[row * 17 + e];
    }
    EXPECT_NEAR(sum, 1, 1e-6);
  }
}

TEST(RouteTest, NansChooseDifferentExperts) {
  const Routes routes = RunRoute(std::vector<float>(8, std::nanf("")), 8, 3, true);
  EXPECT_EQ(routes.experts, (std::vector<int32_t>{0, 1, 2}));
  EXPECT_TRUE(std::isnan(routes.weights[0]));
}

TEST(RouteTest, ARowHasTheSameBitsAloneAndInABatch) {
  const int total = 100, chosen = 7, rows = 40;
  const std::vector<float> logits = RandomFloats(size_t(rows) * total, 1);
  for (const bool normalize : {false, true}) {
    ForEachInstructionSet([&](const char* name) {
      const Routes all = RunRoute(logits, total, chosen, normalize);
      for (int row = 0; row < rows; ++row) {
        const auto begin = logits.begin() + row * total;
        const Routes alone = RunRoute({begin, begin + total}, total, chosen, normalize);
        const auto at = std::ptrdiff_t{row} * chosen;
        EXPECT_TRUE(
            std::equal(alone.experts.begin(), alone.experts.end(), all.experts.begin() + at))
            << name;
        EXPECT_TRUE(SameBits(alone.weights.data(), all.weights.data() + at, chosen)) << name;
      }
    });
  }
}

TEST(GatherRowsTest, CopiesRows) {
  ThreadPool pool(2);
  const int width = 33;
  const std::vector<float> x = RandomFloats(4 * width, 1);
  const std::vector<int32_t> sources = {3, 0, 0, 2, 3};
  std::vector<float> y(5 * width);
  CpuBackend().gather_rows({x.data(), sources.data(), y.data(), 5, width}, pool);
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(SameBits(y.data() + i * width, x.data() + sources[i] * width, width)) << i;
  }
}

TEST(CombineTest, AddsWeightedRowsInOrder) {
  ThreadPool pool(2);
  const int rows = 3, chosen = 2;
  const std::vector<int32_t> places = {5, 0, 1, 1, 4, 2};
  const std::vector<float> weights = RandomFloats(rows * chosen, 2);
  for (const int width : {1, 16, 37}) {
    const std::vector<float> y = RandomFloats(6 * width, 3), before = RandomFloats(rows * width, 4);
    std::vector<float> expected = before;
    for (int r = 0; r < rows; ++r) {
      for (int j = 0; j < chosen; ++j) {
        const int at = r * chosen + j;
        for (int i = 0; i < width; ++i) {
          expected[r * width + i] += weights[at] * y[places[at] * width + i];
        }
      }
    }
    ForEachInstructionSet([&](const char* name) {
      std::vector<float> x = before;
      CpuBackend().combine({y.data(), places.data(), weights.data(), x.data(), rows, chosen, width},
                           pool);
      EXPECT_TRUE(SameBits(x.data(), expected.data(), x.size())) << name << " " << width;
    });
  }
}

}  // namespace
}  // namespace bastion::kernels
