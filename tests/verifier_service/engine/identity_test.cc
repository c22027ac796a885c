// The identity of an engine: that of the checkpoint and, on a GPU, what the bits depend on.
#include <string>

#include "common/hub/checkpoint.h"
#include "engine/cuda/cuda_device.h"
#include "engine/host/host_device.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/runtime/runtime.h"
#include "tests/support/golden_file.h"
#include "verifier_service/engine/verifier_engine.h"

namespace bastion::verifier {
namespace {

std::string TargetFolder() { return testing::GoldenFolder("gqa2_untied_draft2") + "/target"; }

std::string CheckpointIdentity() { return *(*hub::Checkpoint::Open(TargetFolder()))->Identity(); }

std::string IdentityOn(std::shared_ptr<nn::Device> device, WeightFormat weights) {
  VerifierOptions options;
  options.target_folder = TargetFolder();
  options.engine = {.formats = nn::FormatsFor(weights), .device = std::move(device)};
  options.engine.kv_tokens = 64;
  options.max_rows = 64;
  options.max_sequences = 1;
  return (*VerifierEngine::Create(options))->info().identity;
}

TEST(IdentityTest, OnACpuItIsThatOfTheCheckpoint) {
  kernels::ThreadPool pool(1);
  for (const WeightFormat weights : {WeightFormat::kF32, WeightFormat::kBF16}) {
    EXPECT_EQ(IdentityOn(nn::MakeHostDevice(kernels::CpuBackend(), pool), weights),
              CheckpointIdentity());
  }
}

TEST(IdentityTest, OnAGpuItNamesTheArchitectureAndTheProducts) {
  const auto info = kernels::cuda::OpenDevice(0);
  if (!info.ok()) GTEST_SKIP() << "no GPU: " << info.status();
  const std::string family =
      info->name == "emulator" ? "emulated" : "cuda-sm" + std::to_string(info->capability);
  kernels::ThreadPool pool(1);
  const auto identity = [&](bool library, WeightFormat weights) {
    nn::GpuOptions options;
    options.library_products = library;
    return IdentityOn(*nn::OpenCudaDevice(options, {&kernels::CpuBackend(), &pool}), weights);
  };
  const std::string begin = CheckpointIdentity() + "-" + family + "-";
  EXPECT_EQ(identity(false, WeightFormat::kBF16), begin + "exact");
  EXPECT_EQ(identity(true, WeightFormat::kBF16), begin + "cublaslt");
  EXPECT_EQ(identity(false, WeightFormat::kF32), begin + "cublaslt") << "fp32 is cuBLASLt's";
}

}  // namespace
}  // namespace bastion::verifier
