#include "engine/model/local_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/torch/portable_backend.h"

namespace bastion::nn {
namespace {

using ::testing::HasSubstr;

TEST(LocalDeviceTest, FindsBackendsByName) {
  const auto device = OpenLocalDevice(2);
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_EQ(device->device.backend, &kernels::CpuBackend());
  EXPECT_EQ(device->device.pool->threads(), 2);
  EXPECT_EQ(OpenLocalDevice(1, "cpu")->device.backend, &kernels::CpuBackend());
  const absl::Status unknown = OpenLocalDevice(1, "gpu").status();
  EXPECT_TRUE(absl::IsInvalidArgument(unknown));
  EXPECT_THAT(std::string(unknown.message()),
              HasSubstr("--backend is gpu; it must be cpu or torch"));
}

TEST(LocalDeviceTest, OpensThePortableBackendIfTheBuildHasIt) {
  const auto portable = kernels::PortableBackend();
  const auto device = OpenLocalDevice(1, "torch");
  ASSERT_EQ(device.status(), portable.status());
  if (portable.ok()) {
    EXPECT_EQ(device->device.backend, *portable);
  }
}

TEST(LocalDeviceTest, RefusesAnInvalidNumberOfThreads) {
  for (const int threads : {-1, 1025}) {
    EXPECT_TRUE(absl::IsInvalidArgument(OpenLocalDevice(threads).status())) << threads;
  }
}

TEST(LocalDeviceTest, ThePortableBackendSelectsTheCpu) {
  EXPECT_EQ(*ParseDeviceKind("auto"), DeviceKind::kAuto);
  EXPECT_EQ(*ParseDeviceKind("cuda"), DeviceKind::kCuda);
  EXPECT_EQ(*ParseDeviceKind("auto", "torch"), DeviceKind::kCpu);
  EXPECT_EQ(*ParseDeviceKind("cpu", "torch"), DeviceKind::kCpu);
  const absl::Status both = ParseDeviceKind("cuda", "torch").status();
  EXPECT_TRUE(absl::IsInvalidArgument(both));
  EXPECT_THAT(std::string(both.message()), HasSubstr("--backend torch"));
  EXPECT_TRUE(absl::IsInvalidArgument(ParseDeviceKind("tpu").status()));
}

}  // namespace
}  // namespace bastion::nn
