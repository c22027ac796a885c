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

TEST(LayerNormTest, AgreesWithTheOracleAtEveryWidth) {
  ThreadPool pool(2);
  for (const int width : {1, 15, 16, 64, 100, 320}) {
    std::vector<float> x = RandomFloats(5 * width, 1);
    for (float& value : x) value += 3;  // The mean must be subtracted.
    const std::vector<float> weight = RandomFloats(width, 2), bias = RandomFloats(width, 3);
    std::vector<float> expected(x.size()), actual(x.size());
    TorchOracle().layer_norm(
        {x.data(), weight.data(), bias.data(), expected.data(), 5, width, 1e-5f}, pool);
    ForEachComparedBackend([&](const Backend& backend, const char* name) {
      backend.layer_norm({x.data(), weight.data(), bias.data(), actual.data(), 5, width, 1e-5f},
                         pool);
      ExpectNear(actual, expected, name);
    });
  }
}

TEST(GeluTest, AgreesWithTheOracleAtEveryWidth) {
  ThreadPool pool(2);
  for (const int width : {1, 15, 16, 64, 100}) {
    const std::vector<float> x = RandomFloats(3 * width, 1, 3.0f);
    std::vector<float> expected(x.size()), actual(x.size());
    TorchOracle().gelu({x.data(), expected.data(), 3, width}, pool);
    ForEachComparedBackend([&](const Backend& backend, const char* name) {
      backend.gelu({x.data(), actual.data(), 3, width}, pool);
      ExpectNear(actual, expected, name);
    });
  }
}

TEST(ConvolveTest, AgreesWithTheOracle) {
  ForEachConvolveCase([](const ConvolveCase& test) {
    const std::vector<float> expected = RunConvolve(TorchOracle(), test);
    ForEachComparedBackend([&](const Backend& backend, const char* name) {
      ExpectNear(RunConvolve(backend, test), expected, name);
    });
  });
}

TEST(ScaleTest, AgreesWithTheOracle) {
  ThreadPool pool(2);
  const std::vector<float> x = RandomFloats(3 * 100, 1, 30.0f);
  for (const float cap : {0.0f, 20.0f}) {
    std::vector<float> expected = x;
    TorchOracle().scale({expected.data(), 3, 100, 0.75f, cap}, pool);
    ForEachComparedBackend([&](const Backend& backend, const char* name) {
      std::vector<float> actual = x;
      backend.scale({actual.data(), 3, 100, 0.75f, cap}, pool);
      ExpectNear(actual, expected, name);
    });
  }
}

TEST(QkvTest, AgreesWithTheOracle) {
  ForEachQkvCase([](const QkvCase& test) {
    const std::vector<float> expected = RunQkv(TorchOracle(), test);
    ForEachComparedBackend([&](const Backend& backend, const char* name) {
      ExpectNear(RunQkv(backend, test), expected, name);
    });
  });
}

}  // namespace
}  // namespace bastion::kernels
