#include <gtest/gtest.h>

#include "tests/kernels/torch/compared_backends.h"

namespace bastion::kernels {
namespace {

TEST(RouteTest, AgreesWithTheOracle) {
  ThreadPool pool(2);
  const int rows = 20;
  for (const int total : {4, 9, 128}) {
    const std::vector<float> logits = RandomFloats(size_t(rows) * total, 1);
    for (const int chosen : {1, 3, 4}) {
      for (const bool normalize : {false, true}) {
        std::vector<int32_t> experts(rows * chosen), expected_experts(experts.size());
        std::vector<float> weights(experts.size()), expected(weights.size());
        TorchOracle().route({logits.data(), expected_experts.data(), expected.data(), rows, total,
                             chosen, normalize},
                            pool);
        ForEachComparedBackend([&](const Backend& backend, const char* name) {
          backend.route(
              {logits.data(), experts.data(), weights.data(), rows, total, chosen, normalize},
              pool);
          EXPECT_EQ(experts, expected_experts) << name;
          ExpectNear(weights, expected, name);
        });
      }
    }
  }
}

TEST(CombineTest, AgreesWithTheOracle) {
  ThreadPool pool(2);
  const int rows = 5, chosen = 3, width = 37;
  const std::vector<float> x = RandomFloats(rows * width, 1), y = RandomFloats(15 * width, 2);
  const std::vector<float> weights = RandomFloats(rows * chosen, 3);
  std::vector<int32_t> sources(rows * chosen), places(rows * chosen);
  for (int i = 0; i < rows * chosen; ++i) {
    sources[i] = (7 * i) % 5;
    places[i] = (4 * i) % 15;
  }
  std::vector<float> expected = x, gathered(15 * width), expected_gathered(15 * width);
  TorchOracle().combine(
      {y.data(), places.data(), weights.data(), expected.data(), rows, chosen, width}, pool);
  TorchOracle().gather_rows({x.data(), sources.data(), expected_gathered.data(), 15, width}, pool);
  ForEachComparedBackend([&](const Backend& backend, const char* name) {
    std::vector<float> actual = x;
    backend.combine({y.data(), places.data(), weights.data(), actual.data(), rows, chosen, width},
                    pool);
    ExpectNear(actual, expected, name);
    backend.gather_rows({x.data(), sources.data(), gathered.data(), 15, width}, pool);
    EXPECT_EQ(gathered, expected_gathered) << name;
  });
}

}  // namespace
}  // namespace bastion::kernels
