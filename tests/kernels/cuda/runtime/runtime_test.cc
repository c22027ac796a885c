#include "kernels/cuda/runtime/runtime.h"

#include <thread>

#include "gmock/gmock.h"
#include "tests/kernels/cuda/device_test_support.h"

namespace bastion::kernels::cuda {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

class RuntimeTest : public DeviceTest {
 protected:
  static Memory Make(absl::StatusOr<Memory> memory) {
    EXPECT_TRUE(memory.ok()) << memory.status();
    return *std::move(memory);
  }
  // Launches a kernel as an example of work: y = silu(gate) * up for one row.
  void LaunchKernel(const OnDevice<float>& gate_up, const OnDevice<float>& y) {
    SiluMul({gate_up.data(), y.data(), DType::kF32, 1, kWidth}, *stream_);
  }
  // Input for LaunchKernel. For gate 0 the result is 0; for a large gate it is gate * up.
  static std::vector<float> Input(float gate, float up) {
    std::vector<float> values(2 * kWidth, up);
    std::fill(values.begin(), values.begin() + kWidth, gate);
    return values;
  }

  static constexpr int kWidth = 1000;
};

TEST_F(RuntimeTest, OpenDeviceDescribesTheDevice) {
  EXPECT_FALSE(device_.name.empty());
  EXPECT_EQ(device_.ordinal, 0);
  EXPECT_GE(device_.capability, 80);
  EXPECT_GT(device_.multiprocessors, 0);
  EXPECT_GT(device_.free_bytes, 0u);
  EXPECT_LE(device_.free_bytes, device_.memory_bytes);
  EXPECT_GT(device_.cache_bytes, 0u);
}

TEST_F(RuntimeTest, AnInvalidOrdinalIsUnavailable) {
  for (const int ordinal : {-1, 1000}) {
    EXPECT_EQ(OpenDevice(ordinal).status().code(), absl::StatusCode::kUnavailable);
  }
}

TEST_F(RuntimeTest, MemoryIsZeroedAndAligned) {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{257}, size_t{3} << 20}) {
    const Memory device = Make(Memory::OnDevice(bytes, "a test"));
    const Memory host = Make(Memory::OnHost(bytes, "a test"));
    EXPECT_EQ(device.bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(device.as<void>()) % 256, 0u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(host.as<void>()) % 256, 0u);
    std::vector<uint8_t> read(bytes, 7), other(bytes, 7);
    stream_->Copy(read.data(), device.as<void>(), bytes);
    stream_->Copy(other.data(), host.as<void>(), bytes);
    Finish();
    EXPECT_EQ(read, std::vector<uint8_t>(bytes));
    EXPECT_EQ(other, std::vector<uint8_t>(bytes));
  }
}

TEST_F(RuntimeTest, CopiesBetweenHostAndDeviceMemory) {
  constexpr size_t kCount = 100000;
  Memory first = Make(Memory::OnDevice(kCount * 4, "a test"));
  const Memory second = Make(Memory::OnDevice(kCount * 4, "a test"));
  const Memory host = Make(Memory::OnHost(kCount * 4, "a test"));
  std::vector<uint32_t> values(kCount), read(kCount);
  std::iota(values.begin(), values.end(), 12345);
  const Memory moved = std::move(first);
  stream_->Copy(moved.as<void>(), values.data(), kCount * 4);
  stream_->Copy(host.as<void>(), moved.as<void>(), kCount * 4);
  stream_->Copy(second.as<void>(), host.as<void>(), kCount * 4);
  stream_->Fill(moved.as<void>(), 0xAB, 8);
  stream_->Copy(read.data(), second.as<void>(), kCount * 4);
  Finish();
  EXPECT_EQ(read, values);
  EXPECT_EQ(host.as<uint32_t>()[kCount - 1], values.back());
  stream_->Copy(read.data(), moved.as<void>(), kCount * 4);
  Finish();
  EXPECT_EQ(read[0], 0xABABABABu);
  EXPECT_EQ(read[1], 0xABABABABu);
  EXPECT_EQ(read[2], values[2]);
}

TEST_F(RuntimeTest, AnAllocationErrorNamesThePurposeAndTheSize) {
  const absl::Status status = Memory::OnDevice(size_t{1} << 50, "a huge test buffer").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("1073741824 MiB"), HasSubstr("a huge test buffer")));
  // Later allocations still work.
  const Memory small = Make(Memory::OnDevice(256, "a test"));
  stream_->Fill(small.as<void>(), 1, 256);
  Finish();
}

TEST_F(RuntimeTest, AReplayReadsItsInputsAgain) {
  const OnDevice<float> y(kWidth, -1.0f);
  OnDevice<float> gate_up(Input(50, 2));
  const Memory copied = Make(Memory::OnHost(kWidth * sizeof(float), "a test"));
  LaunchKernel(gate_up, y);
  stream_->Fill(y.data(), 0xFF, kWidth * sizeof(float));
  Finish();
  stream_->BeginRecording();
  LaunchKernel(gate_up, y);
  stream_->Copy(copied.as<void>(), y.data(), kWidth * sizeof(float));
  stream_->Fill(y.data(), 0, sizeof(float));
  auto graph = stream_->EndRecording();
  ASSERT_TRUE(graph.ok()) << graph.status();
  Finish();
  EXPECT_EQ(copied.as<float>()[0], 0) << "recording must not run the work";
  for (const float up : {2.0f, -3.0f, 0.5f}) {
    gate_up.Write(Input(50, up));
    stream_->Run(**graph);
    Finish();
    std::vector<float> read(copied.as<float>(), copied.as<float>() + kWidth);
    EXPECT_THAT(read, Each(50 * up));
    read = y.Read();
    EXPECT_EQ(read[0], 0);
    EXPECT_EQ(read[1], 50 * up);
  }
}

TEST_F(RuntimeTest, AwaitFlagSeesTheFlagThatTheDeviceRaises) {
  const Memory flag = Make(Memory::OnHost(sizeof(uint64_t), "a test's flag"));
  OnDevice<uint64_t> value(1, uint64_t{7});
  const OnDevice<float> y(kWidth), gate_up(Input(50, 2));
  for (uint64_t step = 1; step <= 3; ++step) {
    value.Write({step});
    LaunchKernel(gate_up, y);
    stream_->Copy(flag.as<void>(), value.data(), sizeof(uint64_t));
    const absl::Status raised = stream_->AwaitFlag(flag.as<uint64_t>(), step);
    ASSERT_TRUE(raised.ok()) << raised;
    EXPECT_EQ(*flag.as<uint64_t>(), step);
  }
}

TEST_F(RuntimeTest, AwaitFlagFailsIfTheWorkEndsWithoutRaisingIt) {
  const Memory flag = Make(Memory::OnHost(sizeof(uint64_t), "a test's flag"));
  const OnDevice<float> y(kWidth), gate_up(Input(50, 2));
  LaunchKernel(gate_up, y);
  const absl::Status status = stream_->AwaitFlag(flag.as<uint64_t>(), 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("raised"));
}

TEST_F(RuntimeTest, TheNextWaitReturnsTheFirstError) {
  stream_->ReportError(0, "nothing");
  Finish();
  stream_->ReportError(1, "the first thing");
  stream_->ReportError(2, "the second thing");
  const absl::Status status = stream_->Synchronize();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the first thing"));
  Finish();
  const Memory flag = Make(Memory::OnHost(sizeof(uint64_t), "a test's flag"));
  stream_->ReportError(1, "the third thing");
  const absl::Status awaited = stream_->AwaitFlag(flag.as<uint64_t>(), 0);
  EXPECT_THAT(std::string(awaited.message()), HasSubstr("the third thing"));
  Finish();
}

TEST_F(RuntimeTest, MarksMeasureTheWorkBetweenThem) {
  const Memory memory = Make(Memory::OnDevice(size_t{16} << 20, "a test"));
  for (int round = 0; round < 2; ++round) {
    std::vector<int> marks = {stream_->Mark()};
    for (int i = 0; i < 5; ++i) {
      stream_->Fill(memory.as<void>(), static_cast<uint8_t>(i), memory.bytes());
      marks.push_back(stream_->Mark());
    }
    double sum = 0;
    for (int i = 0; i < 5; ++i) {
      const absl::StatusOr<double> part = stream_->ElapsedSeconds(marks[i], marks[i + 1]);
      ASSERT_TRUE(part.ok()) << part.status();
      EXPECT_GT(*part, 0);
      sum += *part;
    }
    const absl::StatusOr<double> whole = stream_->ElapsedSeconds(marks[0], marks[5]);
    ASSERT_TRUE(whole.ok()) << whole.status();
    EXPECT_NEAR(*whole, sum, 0.01 * sum + 1e-5);
    stream_->ForgetMarks();
  }
}

TEST_F(RuntimeTest, DifferentThreadsMayUseAStreamInTurn) {
  const OnDevice<float> y(kWidth), gate_up(Input(50, 2));
  std::thread([&] {
    LaunchKernel(gate_up, y);
    Finish();
  }).join();
  std::thread([&] {
    const OnDevice<float> other(Input(50, 3));
    stream_->BeginRecording();
    LaunchKernel(other, y);
    auto graph = stream_->EndRecording();
    ASSERT_TRUE(graph.ok()) << graph.status();
    stream_->Run(**graph);
    Finish();
  }).join();
  EXPECT_THAT(y.Read(), Each(150.0f));
}

// A service that goes on would answer every request with an error.
TEST_F(RuntimeTest, AccessToAWrongAddressEndsTheProcess) {
  if (device_.name == "emulator") GTEST_SKIP() << "the process ends by itself";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto access = [&] {
    SiluMul(
        {reinterpret_cast<float*>(0x100), reinterpret_cast<float*>(0x100), DType::kF32, 1, kWidth},
        *stream_);
    static_cast<void>(stream_->Synchronize());
  };
  EXPECT_DEATH(access(), "cannot use the GPU anymore");
}

TEST_F(RuntimeTest, AbortsOnForbiddenCallsWhileRecording) {
  stream_->BeginRecording();
  EXPECT_DEATH(stream_->BeginRecording(), "end the current recording");
  EXPECT_DEATH(static_cast<void>(stream_->Synchronize()), "being recorded");
  EXPECT_DEATH(static_cast<void>(stream_->Mark()), "while recording");
  const auto graph = stream_->EndRecording();
  EXPECT_TRUE(graph.ok()) << graph.status();
}

}  // namespace
}  // namespace bastion::kernels::cuda
