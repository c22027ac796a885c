// The GEMM tuning file, in which Gemm keeps the fastest algorithm of each shape, one per line.
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
  std::string device;    // DeviceInfo::name.
  uint64_t library = 0;  // The library version. `algorithm` is valid only for this version.
  GemmShape shape;
  std::array<uint64_t, 8> algorithm = {};
  double microseconds = 0;

  [[nodiscard]] friend bool operator==(const GemmEntry&, const GemmEntry&) = default;
};

// Returns no entries if the file does not exist. INVALID_ARGUMENT with the line number if a line
// cannot be parsed.
[[nodiscard]] absl::StatusOr<std::vector<GemmEntry>> ReadGemmTable(const std::string& path);
// Replaces the file atomically: a concurrent reader sees the old or the new contents.
[[nodiscard]] absl::Status WriteGemmTable(const std::string& path,
                                          const std::vector<GemmEntry>& entries);

}  // namespace bastion::kernels::cuda

#endif  // BASTION_KERNELS_CUDA_GEMM_GEMM_TABLE_H_
