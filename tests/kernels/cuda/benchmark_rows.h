// A step of one sequence in the device's memory, for benchmarks.
#ifndef BASTION_TESTS_KERNELS_CUDA_BENCHMARK_ROWS_H_
#define BASTION_TESTS_KERNELS_CUDA_BENCHMARK_ROWS_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/cuda/ops.h"
#include "tests/kernels/cuda/device_benchmark.h"

namespace bastion::kernels::cuda {

class BenchmarkRows {
 public:
  // `count` rows after `cached` tokens: one row, or a tree in which every row has two children.
  // The sequence's pages are 0, 1, ….
  [[nodiscard]] static absl::StatusOr<BenchmarkRows> Make(DeviceBenchmark& bench, int count,
                                                          int cached);

  [[nodiscard]] const StepRows& rows() const { return rows_; }
  [[nodiscard]] static int Pages(int count, int cached) {
    return (cached + count + kPageTokens - 1) / kPageTokens;
  }

 private:
  StepRows rows_;
  std::vector<Memory> memories_;
};

}  // namespace bastion::kernels::cuda

#endif  // BASTION_TESTS_KERNELS_CUDA_BENCHMARK_ROWS_H_
