// Tests device memory that two processes share: imported again by the same process, imported by
// another process, and imported by a process on a second GPU.
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

// Reads `memory` through memory that this process allocated, as the drafter does.
std::vector<uint32_t> ReadThrough(Stream& stream, const Memory& memory) {
  std::vector<uint32_t> numbers(kCount, 7);
  auto own = Memory::OnDevice(kBytes, "a test");
  EXPECT_TRUE(own.ok()) << own.status();
  stream.Copy(own->as<void>(), memory.as<void>(), kBytes);
  stream.Copy(numbers.data(), own->as<void>(), kBytes);
  const absl::Status done = stream.Synchronize();
  EXPECT_TRUE(done.ok()) << done;
  return numbers;
}

// The descriptor that the parent process passed, or -1.
int InheritedDescriptor() {
  const char* const descriptor = getenv(kDescriptorKey);
  return descriptor == nullptr ? -1 : atoi(descriptor);
}

class SharedMemoryTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    auto shared = Memory::OnDeviceShareable(device_, kBytes, "a test");
    if (absl::IsUnimplemented(shared.status())) GTEST_SKIP() << shared.status();
    ASSERT_TRUE(shared.ok()) << shared.status();
    shared_ = *std::move(shared);
  }
  void Write(const Memory& memory, uint32_t first) {
    const std::vector<uint32_t> numbers = Numbers(first);
    stream_->Copy(memory.as<void>(), numbers.data(), kBytes);
    Finish();
  }
  std::vector<uint32_t> Read(const Memory& memory) { return ReadThrough(*stream_, memory); }
  int Export() {
    const auto descriptor = shared_.ExportDescriptor();
    EXPECT_TRUE(descriptor.ok()) << descriptor.status();
    return descriptor.value_or(-1);
  }
  Memory Import() {
    const int descriptor = Export();
    auto imported = Memory::Import({descriptor, kBytes, device_.uuid}, device_);
    EXPECT_TRUE(imported.ok()) << imported.status();
    close(descriptor);
    return *std::move(imported);
  }

  // Runs the disabled test `filter` in a child process, which inherits a descriptor of shared_.
  void ExpectChildSucceeds(std::string filter) {
    const int exported = Export(), descriptor = dup(exported);  // dup clears close-on-exec.
    ASSERT_GE(descriptor, 0);
    close(exported);
    setenv(kDescriptorKey, std::to_string(descriptor).c_str(), /*overwrite=*/1);
    std::string program = "/proc/self/exe", disabled = "--gtest_also_run_disabled_tests";
    filter = "--gtest_filter=" + filter;
    char* const arguments[] = {program.data(), filter.data(), disabled.data(), nullptr};
    pid_t child = 0;
    ASSERT_EQ(posix_spawn(&child, program.c_str(), nullptr, nullptr, arguments, environ), 0);
    unsetenv(kDescriptorKey);
    int state = 0;
    ASSERT_EQ(waitpid(child, &state, 0), child);
    EXPECT_TRUE(WIFEXITED(state) && WEXITSTATUS(state) == 0);
    close(descriptor);
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
  EXPECT_FALSE(Memory::Import({ends[0], kBytes, device_.uuid}, device_).ok());
  EXPECT_FALSE(Memory::Import({-1, kBytes, device_.uuid}, device_).ok());
  close(ends[0]);
  close(ends[1]);
  // The device still works.
  Write(shared_, 3);
  EXPECT_EQ(Read(Import()), Numbers(3));
}

TEST_F(SharedMemoryTest, ImportRefusesAGpuThatThisProcessDoesNotSee) {
  const int descriptor = Export();
  const auto imported = Memory::Import({descriptor, kBytes, "an unknown GPU"}, device_);
  close(descriptor);
  EXPECT_EQ(imported.status().code(), absl::StatusCode::kUnavailable) << imported.status();
}

TEST_F(SharedMemoryTest, AnotherProcessCanReadTheMemory) {
  Write(shared_, 1234);
  ExpectChildSucceeds("*TheOtherProcess");
}

// AnotherProcessCanReadTheMemory runs this test in a child process.
TEST_F(SharedMemoryTest, DISABLED_TheOtherProcess) {
  const auto imported = Memory::Import({InheritedDescriptor(), kBytes, device_.uuid}, device_);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(Read(*imported), Numbers(1234));
}

TEST_F(SharedMemoryTest, AProcessOnAPeerCanReadTheMemory) {
  if (device_.peers.empty()) GTEST_SKIP() << "GPU 0 has no peers";
  Write(shared_, 4321);
  ExpectChildSucceeds("*TheProcessOnThePeer");
}

// AProcessOnAPeerCanReadTheMemory runs this test in a child process.
TEST(PeerMemoryTest, DISABLED_TheProcessOnThePeer) {
  const auto owner = OpenDevice(0), reader = OpenDevice(1);  // The last one is the process's GPU.
  ASSERT_TRUE(owner.ok() && reader.ok()) << owner.status() << reader.status();
  if (reader->peers != std::vector<std::string>{owner->uuid}) {
    GTEST_SKIP() << "GPU 1 has " << reader->peers.size() << " peers";
  }
  const auto imported = Memory::Import({InheritedDescriptor(), kBytes, owner->uuid}, *reader);
  ASSERT_TRUE(imported.ok()) << imported.status();
  const auto stream = Stream::Create();
  ASSERT_TRUE(stream.ok()) << stream.status();
  EXPECT_EQ(ReadThrough(**stream, *imported), Numbers(4321));
}

}  // namespace
}  // namespace bastion::kernels::cuda
