// CudaParityFixture: a golden case, and the options of models on the CPU and on a GPU. A build
// without CUDA uses the emulator.
#ifndef BASTION_TESTS_PARITY_CUDA_PARITY_FIXTURE_H_
#define BASTION_TESTS_PARITY_CUDA_PARITY_FIXTURE_H_

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "engine/cuda/cuda_device.h"
#include "engine/program/local_device.h"
#include "kernels/cuda/runtime/runtime.h"
#include "tests/support/golden_file.h"

namespace bastion::testing {

inline void ExpectNear(const std::vector<float>& actual, const std::vector<float>& expected,
                       double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], tolerance * (1 + std::abs(expected[i]))) << "at " << i;
  }
}

class CudaParityFixture : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const auto gpu = kernels::cuda::OpenDevice(0);
    if (!gpu.ok()) GTEST_SKIP() << "no GPU: " << gpu.status().message();
    folder_ = GoldenFolder(GetParam());
    golden_ = std::make_unique<GoldenFile>(folder_ + "/golden.safetensors");
    tokens_ = golden_->Integers("tokens");
    options_ = {
        .formats = nn::FormatsFor(WeightFormat::kF32), .device = device_.device, .kv_tokens = 1024};
    options_.max_rows = 128, options_.max_sequences = 4;
  }

  // The options of a model on a GPU of its own.
  nn::EngineOptions OnGpu() const {
    nn::EngineOptions options = options_;
    options.device = *nn::OpenCudaDevice({}, options_.device->host());
    return options;
  }

  std::string folder_;
  std::unique_ptr<GoldenFile> golden_;
  std::vector<TokenId> tokens_;
  nn::LocalDevice device_ = *nn::OpenLocalDevice(2);
  nn::EngineOptions options_;
};

}  // namespace bastion::testing

#endif  // BASTION_TESTS_PARITY_CUDA_PARITY_FIXTURE_H_
