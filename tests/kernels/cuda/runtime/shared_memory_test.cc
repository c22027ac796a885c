// Tests device memory that two processes share: imported again by the same process, and imported by
// another process.
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "gmock/gmock.h"
#include "tests/kernels/cuda/device_test_support.h"

namespace bastion::kernels::cuda {
namespace {

constexpr size_t kCount = 100000;
constexpr size_t kBytes = kCount * sizeof(uint32_t);
// The environment variable that passes the descriptor's number to the other process.
constexpr char kDescriptorKey[] = "BASTION_TEST_DESCRIPTOR";

std::vector<uint32_t> Numbers(uint32_t first) {
  std::vector<uint32_t> numbers(kCount);
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

class SharedMemoryTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    auto shared = Memory::OnDeviceShareable(kBytes, "a test");
    if (absl::IsUnimplemented(shared.status())) GTEST_SKIP() << shared.status();
    ASSERT_TRUE(shared.ok()) << shared.status();
    shared_ = *std::move(shared);
  }
  void Write(const Memory& memory, uint32_t first) {
    const std::vector<uint32_t> numbers = Numbers(first);
    stream_->Copy(memory.as<void>(), numbers.data(), kBytes);
    Finish();
  }
  std::vector<uint32_t> Read(const Memory& memory) {
    std::vector<uint32_t> numbers(kCount, 7);
    // Copy through memory that this process allocated, as the drafter does.
    auto own = Memory::OnDevice(kBytes, "a test");
    EXPECT_TRUE(own.ok()) << own.status();
    stream_->Copy(own->as<void>(), memory.as<void>(), kBytes);
    stream_->Copy(numbers.data(), own->as<void>(), kBytes);
    Finish();
    return numbers;
  }
  int Export() {
    const auto descriptor = shared_.ExportDescriptor();
    EXPECT_TRUE(descriptor.ok()) << descriptor.status();
    return descriptor.value_or(-1);
  }
  Memory Import() {
    const int descriptor = Export();
    auto imported = Memory::Import(descriptor, kBytes);
    EXPECT_TRUE(imported.ok()) << imported.status();
    close(descriptor);
    return *std::move(imported);
  }

  Memory shared_;
};

TEST_F(SharedMemoryTest, ADeviceHasAStableUuid) {
  EXPECT_EQ(device_.uuid.size(), 16u);
  EXPECT_EQ(OpenDevice(0)->uuid, device_.uuid);
}

TEST_F(SharedMemoryTest, IsZeroedAndHasTheRequestedSize) {
  EXPECT_EQ(shared_.bytes(), kBytes);
  EXPECT_EQ(Read(shared_), std::vector<uint32_t>(kCount));
}

TEST_F(SharedMemoryTest, AnImportSeesLaterWrites) {
  Write(shared_, 1);
  const Memory imported = Import();
  EXPECT_EQ(imported.bytes(), kBytes);
  EXPECT_NE(imported.as<void>(), shared_.as<void>());
  EXPECT_EQ(Read(imported), Numbers(1));
  Write(shared_, 99);
  EXPECT_EQ(Read(imported), Numbers(99));
}

TEST_F(SharedMemoryTest, AnImportOutlivesTheExporter) {
  Write(shared_, 5);
  const Memory imported = Import();
  shared_ = Memory();
  EXPECT_EQ(Read(imported), Numbers(5));
}

TEST_F(SharedMemoryTest, ImportRefusesOtherDescriptors) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_FALSE(Memory::Import(ends[0], kBytes).ok());
  EXPECT_FALSE(Memory::Import(-1, kBytes).ok());
  close(ends[0]);
  close(ends[1]);
  // The device still works.
  Write(shared_, 3);
  EXPECT_EQ(Read(Import()), Numbers(3));
}

TEST_F(SharedMemoryTest, AnotherProcessCanReadTheMemory) {
  Write(shared_, 1234);
  const int descriptor = dup(Export());  // dup clears the close-on-exec flag.
  ASSERT_GE(descriptor, 0);
  setenv(kDescriptorKey, std::to_string(descriptor).c_str(), /*overwrite=*/1);
  std::string program = "/proc/self/exe", filter = "--gtest_filter=*TheOtherProcess";
  std::string disabled = "--gtest_also_run_disabled_tests";
  char* const arguments[] = {program.data(), filter.data(), disabled.data(), nullptr};
  pid_t child = 0;
  ASSERT_EQ(posix_spawn(&child, program.c_str(), nullptr, nullptr, arguments, environ), 0);
  unsetenv(kDescriptorKey);
  int state = 0;
  ASSERT_EQ(waitpid(child, &state, 0), child);
  EXPECT_TRUE(WIFEXITED(state) && WEXITSTATUS(state) == 0);
  close(descriptor);
}

// AnotherProcessCanReadTheMemory runs this test in a child process.
TEST_F(SharedMemoryTest, DISABLED_TheOtherProcess) {
  const char* const descriptor = getenv(kDescriptorKey);
  ASSERT_NE(descriptor, nullptr);
  const auto imported = Memory::Import(atoi(descriptor), kBytes);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(Read(*imported), Numbers(1234));
}

}  // namespace
}  // namespace bastion::kernels::cuda
