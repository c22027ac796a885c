// The file in which Gemm keeps what it found out, one shape a line.
#ifndef BASTION_KERNELS_CUDA_GEMM_GEMM_TABLE_H_
#define BASTION_KERNELS_CUDA_GEMM_GEMM_TABLE_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/gemm/gemm.h"

namespace bastion::kernels::cuda {

struct GemmEntry {
  std::string device;    // As DeviceInfo calls it.
  uint64_t library = 0;  // Its version: what follows means nothing to another one.
  GemmShape shape;
  std::array<uint64_t, 8> algorithm = {};
  double microseconds = 0;

  [[nodiscard]] friend bool operator==(const GemmEntry&, const GemmEntry&) = default;
};

// Nothing where there is no such file; INVALID_ARGUMENT with the line that cannot be read.
[[nodiscard]] absl::StatusOr<std::vector<GemmEntry>> ReadGemmTable(const std::string& path);
// Replaces the file at once: who reads it meanwhile sees the old one or the new.
[[nodiscard]] absl::Status WriteGemmTable(const std::string& path,
                                          const std::vector<GemmEntry>& entries);

}  // namespace bastion::kernels::cuda

#endif  // BASTION_KERNELS_CUDA_GEMM_GEMM_TABLE_H_
