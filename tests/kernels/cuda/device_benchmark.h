// DeviceBenchmark: times calls on a GPU. It records the calls into a graph, as the engine does,
// and replays the graph between two marks. The calls rotate through operands that are larger
// than the GPU's cache.
#ifndef BASTION_TESTS_KERNELS_CUDA_DEVICE_BENCHMARK_H_
#define BASTION_TESTS_KERNELS_CUDA_DEVICE_BENCHMARK_H_

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/runtime/runtime.h"
#include "kernels/ops/types.h"

namespace bastion::kernels::cuda {

// Seconds per call, over the replays.
struct Spread {
  double median = 0;
  double low = 0;   // 10th percentile
  double high = 0;  // 90th percentile
};

// Describes one measurement. `bytes` (of memory traffic) and `operations` are the minimum that a
// call needs.
struct Figure {
  std::string part;    // "gemm"
  std::string detail;  // "Qwen3-8B qkv 6144 x 4096"
  int rows = 0;
  double bytes = 0;
  double operations = 0;  // Floating-point operations.
};

class DeviceBenchmark {
 public:
  // UNAVAILABLE if there is no GPU.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<DeviceBenchmark>> Open();

  [[nodiscard]] const DeviceInfo& device() const { return device_; }
  [[nodiscard]] Stream& stream() { return *stream_; }

  // Number of operands of `bytes` each that together exceed three times the size of the cache.
  [[nodiscard]] int OperandCount(double bytes) const;
  // Makes an operand of random values, normally distributed with standard deviation `scale`.
  [[nodiscard]] absl::StatusOr<Memory> Random(DType dtype, size_t count, float scale);
  template <typename T>
  [[nodiscard]] absl::StatusOr<Memory> Upload(const std::vector<T>& values) {
    return UploadBytes(values.data(), values.size() * sizeof(T));
  }

  // Times the calls work(0) … work(calls − 1). Prints a line and adds it to the report.
  [[nodiscard]] absl::Status Measure(const Figure& figure, int calls,
                                     absl::FunctionRef<void(int call)> work);
  // Prints a measurement that the caller made and adds it to the report.
  void AddMeasurement(const Figure& figure, const Spread& spread);

  [[nodiscard]] nlohmann::json Report() const;

 private:
  DeviceBenchmark(DeviceInfo device, std::unique_ptr<Stream> stream)
      : device_(std::move(device)), stream_(std::move(stream)) {}
  [[nodiscard]] absl::StatusOr<Memory> UploadBytes(const void* data, size_t bytes);
  [[nodiscard]] absl::StatusOr<std::vector<double>> Replay(const Graph& graph);

  const DeviceInfo device_;
  const std::unique_ptr<Stream> stream_;
  nlohmann::json figures_ = nlohmann::json::array();
};

// Percentiles of `seconds` per call. `seconds` has one value per replay of `calls` calls.
// REQUIRES: `seconds` is not empty.
[[nodiscard]] Spread SpreadOf(std::vector<double> seconds, int calls);

// A part of the benchmark. All parts that are linked run in the order of their numbers.
struct BenchmarkPart {
  int number = 0;
  const char* name = nullptr;
  absl::Status (*run)(DeviceBenchmark&) = nullptr;
};
[[nodiscard]] std::vector<BenchmarkPart>& BenchmarkParts();
// Use at namespace scope: const bool registered = RegisterPart({…}). Always returns true.
bool RegisterPart(const BenchmarkPart& part);

}  // namespace bastion::kernels::cuda

#endif  // BASTION_TESTS_KERNELS_CUDA_DEVICE_BENCHMARK_H_
