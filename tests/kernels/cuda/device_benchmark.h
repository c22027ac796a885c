// Timing on the device: pieces of work are recorded one after the other, as the engine's are, and
// the recording is replayed between two marks. Operands rotate through more memory than the
// device's cache holds.
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
#include "kernels/types.h"

namespace bastion::kernels::cuda {

// Seconds of one piece of work over the replays.
struct Spread {
  double median = 0;
  double low = 0;   // 10th percentile
  double high = 0;  // 90th
};

// What is measured. `bytes` and `operations` are the fewest that a piece can do with.
struct Figure {
  std::string part;    // "gemm"
  std::string detail;  // "Qwen3-8B qkv 6144 x 4096"
  int rows = 0;
  double bytes = 0;
  double operations = 0;  // Floating-point.
};

class DeviceBenchmark {
 public:
  // UNAVAILABLE where there is no GPU.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<DeviceBenchmark>> Open();

  [[nodiscard]] const DeviceInfo& device() const { return device_; }
  [[nodiscard]] Stream& stream() { return *stream_; }

  // Operands of `bytes` each that together are three times what the cache holds; at least one.
  [[nodiscard]] int CountOf(double bytes) const;
  // Random values, normal with deviation `scale`, as one operand.
  [[nodiscard]] absl::StatusOr<Memory> Random(DType dtype, size_t count, float scale);
  template <typename T>
  [[nodiscard]] absl::StatusOr<Memory> Upload(const std::vector<T>& values) {
    return UploadBytes(values.data(), values.size() * sizeof(T));
  }

  // Times pieces 0, 1, … pieces − 1 of work, prints a line and keeps it for the report.
  [[nodiscard]] absl::Status Measure(const Figure& figure, int pieces,
                                     absl::FunctionRef<void(int piece)> work);
  // Prints and keeps what was measured otherwise.
  void Keep(const Figure& figure, const Spread& spread);

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

// Of values, one a replay, each of so many pieces. REQUIRES: there are some.
[[nodiscard]] Spread SpreadOf(std::vector<double> seconds, int pieces);

// One part of the benchmark. Those that are linked in run in the order of their names' numbers.
struct BenchmarkPart {
  int number = 0;
  const char* name = nullptr;
  absl::Status (*run)(DeviceBenchmark&) = nullptr;
};
[[nodiscard]] std::vector<BenchmarkPart>& BenchmarkParts();
// At namespace scope: const bool kept = RegisterPart({…}).
bool RegisterPart(const BenchmarkPart& part);

}  // namespace bastion::kernels::cuda

#endif  // BASTION_TESTS_KERNELS_CUDA_DEVICE_BENCHMARK_H_
