#include <gtest/gtest.h>

#include "tests/kernels/rowwise_test_support.h"
#include "tests/kernels/torch/compared_backends.h"

namespace bastion::kernels {
namespace {

TEST(RmsNormTest, AgreesWithTheOracleAtEveryWidth) {
  ThreadPool pool(2);
  for (const int width : {1, 15, 16, 64, 100, 320}) {
    const std::vector<float> x = RandomFloats(5 * width, 1), weight = RandomFloats(width, 2);
    std::vector<float> expected(x.size()), actual(x.size());
    TorchOracle().rms_norm({x.data(), weight.data(), expected.data(), 5, width, 1e-6f}, pool);
    ForEachComparedBackend([&](const Backend& backend, const char* name) {
      backend.rms_norm({x.data(), weight.data(), actual.data(), 5, width, 1e-6f}, pool);
      ExpectNear(actual, expected, name);
    });
  }
}

TEST(SiluMulTest, AgreesWithTheOracleAtEveryWidth) {
  ThreadPool pool(2);
  for (const int width : {1, 15, 16, 64, 100}) {
    const std::vector<float> gate_up = RandomFloats(3 * 2 * width, 1, 3.0f);
    std::vector<float> expected(3 * width), actual(3 * width);
    TorchOracle().silu_mul({gate_up.data(), expected.data(), 3, width}, pool);
    ForEachComparedBackend([&](const Backend& backend, const char* name) {
      backend.silu_mul({gate_up.data(), actual.data(), 3, width}, pool);
      ExpectNear(actual, expected, name);
    });
  }
}

TEST(QkvTest, AgreesWithTheOracleWithAndWithoutQueries) {
  for (const bool with_query : {true, false}) {
    const std::vector<float> expected = RunQkv(TorchOracle(), with_query);
    ForEachComparedBackend([&](const Backend& backend, const char* name) {
      ExpectNear(RunQkv(backend, with_query), expected, name);
    });
  }
}

}  // namespace
}  // namespace bastion::kernels
