// `bastion-drafter --device cuda` with an autoregressive drafter ran on the CPU and did not say so.
// Every kind of drafter runs on the device that --device names, or the service refuses to start.
#include <array>
#include <cstdio>

#include "engine/program/local_device.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion {
namespace {

TEST(DrafterChangesItsDeviceTest, WithoutAGpuTheServiceRefusesToStart) {
  if (nn::OpenLocalDevice({.device = "cuda", .threads = 1}).ok())
    GTEST_SKIP() << "this machine has a GPU";
  for (const char* pair : {"demo_model", "demo_model_neox"}) {
    const std::string folder = std::string(BASTION_SOURCE_DIR) + "/deploy/" + pair;
    const std::string command = std::string(BASTION_BINARY_DIR) + "/bin/bastion-drafter --target " +
                                folder + "/target --drafter " + folder +
                                "/drafter --device cuda 2>&1";
    FILE* const pipe = popen(command.c_str(), "r");
    std::string output;
    std::array<char, 4096> buffer;
    while (const size_t count = fread(buffer.data(), 1, buffer.size(), pipe)) {
      output.append(buffer.data(), count);
    }
    EXPECT_NE(pclose(pipe), 0);
    EXPECT_THAT(output, ::testing::AnyOf(::testing::HasSubstr("this build has no CUDA"),
                                         ::testing::HasSubstr("GPU")));
  }
}

}  // namespace
}  // namespace bastion
