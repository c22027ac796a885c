// BenchmarkRows: the rows of a step (StepRows) in device memory, for benchmarks. The step has one
// sequence.
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
  // Makes `count` rows after `cached` tokens: a single row, or a binary tree. The pages of the
  // sequence are 0, 1, ….
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
