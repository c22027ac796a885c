#include "tests/kernels/cuda/device_benchmark.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>

#include "common/base/status.h"

namespace bastion::kernels::cuda {
namespace {

constexpr int kWarmUps = 3, kReplays = 41;
// Number of random values; operands repeat them. It is odd, so that the rows of a matrix differ.
constexpr size_t kPattern = (size_t{1} << 20) - 1;

const std::vector<float>& Pattern() {
  static const auto* const pattern = [] {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    auto* const values = new std::vector<float>(kPattern);
    for (float& value : *values) value = normal(random);
    return values;
  }();
  return *pattern;
}

void PrintHeader(const DeviceInfo& device) {
  std::printf("%s: compute capability %d.%d, %d multiprocessors, L2 %zu MiB, memory %.0f GiB",
              device.name.c_str(), device.capability / 10, device.capability % 10,
              device.multiprocessors, device.cache_bytes >> 20,
              std::ldexp(static_cast<double>(device.memory_bytes), -30));
  std::printf(" at %.0f GB/s\n\n", 1e-9 * device.bytes_per_second);
  std::printf("%-10s %-40s %5s %10s %10s %10s %8s %6s %8s\n", "part", "work", "rows", "us", "10 %",
              "90 %", "GB/s", "% peak", "TFLOP/s");
}

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceBenchmark>> DeviceBenchmark::Open() {
  absl::StatusOr<DeviceInfo> device = OpenDevice(0);
  if (!device.ok()) {
    return Annotate(device.status(), "this benchmark needs a GPU");
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Stream> stream, Stream::Create());
  PrintHeader(*device);
  return std::unique_ptr<DeviceBenchmark>(
      new DeviceBenchmark(*std::move(device), std::move(stream)));
}

int DeviceBenchmark::OperandCount(double bytes) const {
  return static_cast<int>(3 * static_cast<double>(device_.cache_bytes) / bytes) + 1;
}

absl::StatusOr<Memory> DeviceBenchmark::UploadBytes(const void* data, size_t bytes) {
  ASSIGN_OR_RETURN(Memory memory, Memory::OnDevice(bytes, "a benchmark's operand"));
  stream_->Copy(memory.as<void>(), data, bytes);
  RETURN_IF_ERROR(stream_->Synchronize());
  return memory;
}

absl::StatusOr<Memory> DeviceBenchmark::Random(DType dtype, size_t count, float scale) {
  std::vector<float> floats(Pattern().begin(), Pattern().begin() + std::min(count, kPattern));
  for (float& value : floats) value *= scale;
  std::vector<uint16_t> halves;
  for (const float value : floats) halves.push_back(FloatToBf16(value));
  const void* const pattern =
      dtype == DType::kF32 ? static_cast<const void*>(floats.data()) : halves.data();
  const size_t element = Bytes(dtype, 1), bytes = count * element;
  ASSIGN_OR_RETURN(Memory memory, Memory::OnDevice(bytes, "a benchmark's operand"));
  const size_t whole = floats.size() * element;
  for (size_t at = 0; at < bytes; at += whole) {
    stream_->Copy(memory.as<char>() + at, at == 0 ? pattern : memory.as<void>(),
                  std::min(whole, bytes - at));
  }
  RETURN_IF_ERROR(stream_->Synchronize());
  return memory;
}

absl::StatusOr<std::vector<double>> DeviceBenchmark::Replay(const Graph& graph) {
  stream_->ForgetMarks();
  for (int i = 0; i < kWarmUps; ++i) stream_->Run(graph);
  std::vector<int> marks = {stream_->Mark()};
  for (int i = 0; i < kReplays; ++i) {
    stream_->Run(graph);
    marks.push_back(stream_->Mark());
  }
  RETURN_IF_ERROR(stream_->Synchronize());
  std::vector<double> seconds(kReplays);
  for (int i = 0; i < kReplays; ++i) {
    ASSIGN_OR_RETURN(seconds[i], stream_->ElapsedSeconds(marks[i], marks[i + 1]));
  }
  return seconds;
}

absl::Status DeviceBenchmark::Measure(const Figure& figure, int calls,
                                      absl::FunctionRef<void(int call)> work) {
  work(0);  // Loads the code of the kernels.
  RETURN_IF_ERROR(Annotate(stream_->Synchronize(), figure.detail));
  stream_->BeginRecording();
  for (int call = 0; call < calls; ++call) work(call);
  absl::StatusOr<std::unique_ptr<Graph>> graph = stream_->EndRecording();
  if (!graph.ok()) return Annotate(graph.status(), figure.detail);
  absl::StatusOr<std::vector<double>> seconds = Replay(**graph);
  if (!seconds.ok()) return Annotate(seconds.status(), figure.detail);
  AddMeasurement(figure, SpreadOf(*std::move(seconds), calls));
  return absl::OkStatus();
}

void DeviceBenchmark::AddMeasurement(const Figure& figure, const Spread& spread) {
  nlohmann::json entry = {{"part", figure.part},        {"work", figure.detail},
                          {"rows", figure.rows},        {"us", 1e6 * spread.median},
                          {"us_p10", 1e6 * spread.low}, {"us_p90", 1e6 * spread.high}};
  std::printf("%-10s %-40s %5d %10.2f %10.2f %10.2f", figure.part.c_str(), figure.detail.c_str(),
              figure.rows, 1e6 * spread.median, 1e6 * spread.low, 1e6 * spread.high);
  if (figure.bytes > 0) {
    const double rate = figure.bytes / spread.median;
    entry["bytes"] = figure.bytes;
    entry["bytes_per_second"] = rate;
    std::printf(" %8.0f", 1e-9 * rate);
    if (device_.bytes_per_second > 0) {
      entry["share_of_memory"] = rate / device_.bytes_per_second;
      std::printf(" %6.1f", 100 * rate / device_.bytes_per_second);
    } else {
      std::printf(" %6s", "");
    }
  }
  if (figure.operations > 0) {
    entry["tflops"] = 1e-12 * figure.operations / spread.median;
    std::printf(" %8.1f", 1e-12 * figure.operations / spread.median);
  }
  std::printf("\n");
  std::fflush(stdout);
  figures_.push_back(std::move(entry));
}

nlohmann::json DeviceBenchmark::Report() const {
  return {{"device",
           {{"name", device_.name},
            {"capability", device_.capability},
            {"multiprocessors", device_.multiprocessors},
            {"memory_bytes", device_.memory_bytes},
            {"cache_bytes", device_.cache_bytes},
            {"bytes_per_second", device_.bytes_per_second}}},
          {"replays", kReplays},
          {"figures", figures_}};
}

Spread SpreadOf(std::vector<double> seconds, int calls) {
  std::sort(seconds.begin(), seconds.end());
  const auto at = [&](double share) {
    const auto place = std::lround(share * static_cast<double>(seconds.size() - 1));
    return seconds[place] / calls;
  };
  return {at(0.5), at(0.1), at(0.9)};
}

std::vector<BenchmarkPart>& BenchmarkParts() {
  static auto* const parts = new std::vector<BenchmarkPart>();
  return *parts;
}

bool RegisterPart(const BenchmarkPart& part) {
  BenchmarkParts().push_back(part);
  return true;
}

}  // namespace bastion::kernels::cuda
