// `bastion-drafter --device cuda` with an autoregressive drafter ran on the CPU and did not say so.
#include <array>
#include <cstdio>

#include "drafter_service/draft/draft_model_loader.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion::drafter {
namespace {

using nn::DeviceKind;

const std::string kAutoregressive =
    std::string(BASTION_SOURCE_DIR) + "/deploy/demo_model_neox/drafter";
const std::string kBlock = std::string(BASTION_SOURCE_DIR) + "/deploy/demo_model/drafter";

TEST(DrafterChangesItsDeviceTest, TheServiceRefusesToStart) {
  const std::string command = std::string(BASTION_BINARY_DIR) + "/bin/bastion-drafter --target " +
                              BASTION_SOURCE_DIR + "/deploy/demo_model_neox/target --drafter " +
                              kAutoregressive + " --device cuda 2>&1";
  FILE* const pipe = popen(command.c_str(), "r");
  std::string output;
  std::array<char, 4096> buffer;
  while (const size_t count = fread(buffer.data(), 1, buffer.size(), pipe)) {
    output.append(buffer.data(), count);
  }
  EXPECT_NE(pclose(pipe), 0);
  EXPECT_THAT(output, ::testing::HasSubstr("is an autoregressive drafter"));
}

TEST(DrafterChangesItsDeviceTest, AnAutoregressiveDrafterIsRefusedOnAGpu) {
  const absl::Status status = ChooseDraftDevice(DeviceKind::kCuda, kAutoregressive).status();
  EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("runs on CPUs only"));
}

TEST(DrafterChangesItsDeviceTest, WithoutAChoiceItRunsOnTheCpuAndSaysSo) {
  ::testing::internal::CaptureStderr();
  const auto device = ChooseDraftDevice(DeviceKind::kAuto, kAutoregressive);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), ::testing::HasSubstr("runs on the CPU"));
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_EQ(*device, DeviceKind::kCpu);
}

TEST(DrafterChangesItsDeviceTest, ABlockDrafterRunsWhereItIsTold) {
  for (const DeviceKind kind : {DeviceKind::kCpu, DeviceKind::kCuda, DeviceKind::kAuto}) {
    const auto device = ChooseDraftDevice(kind, kBlock);
    ASSERT_TRUE(device.ok()) << device.status();
    EXPECT_EQ(*device, kind);
  }
}

}  // namespace
}  // namespace bastion::drafter
