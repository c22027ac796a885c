#include "engine/program/local_device.h"

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
  EXPECT_EQ(device->device->host().backend, &kernels::CpuBackend());
  EXPECT_EQ(device->device->host().pool->threads(), 2);
  EXPECT_EQ(OpenLocalDevice(1, "cpu")->device->host().backend, &kernels::CpuBackend());
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
    EXPECT_EQ(device->device->host().backend, *portable);
  }
}

TEST(LocalDeviceTest, RefusesAnInvalidNumberOfThreads) {
  for (const int threads : {-1, 1025}) {
    EXPECT_TRUE(absl::IsInvalidArgument(OpenLocalDevice(threads).status())) << threads;
  }
}

TEST(LocalDeviceTest, ThePortableBackendRunsOnTheCpuOnly) {
  const absl::Status both = OpenLocalDevice({.device = "cuda", .backend = "torch"}).status();
  EXPECT_FALSE(both.ok());
  if (kernels::PortableBackend().ok()) {
    EXPECT_THAT(std::string(both.message()), HasSubstr("--backend torch"));
    EXPECT_TRUE(OpenLocalDevice({.device = "auto", .backend = "torch"})->device->on_host());
  }
}

TEST(LocalDeviceTest, RefusesAnUnknownDevice) {
  const absl::Status unknown = OpenLocalDevice({.device = "tpu"}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(unknown));
  EXPECT_THAT(std::string(unknown.message()),
              HasSubstr("--device is tpu; it must be cpu, cuda or auto"));
}

TEST(LocalDeviceTest, TheCpuServesTwoEngines) {
  const auto local = OpenLocalDevice(1);
  ASSERT_TRUE(local.ok()) << local.status();
  EXPECT_EQ(*OpenAnother(*local, {}), local->device);
}

}  // namespace
}  // namespace bastion::nn
