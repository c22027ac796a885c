// One GPU as the engines use it: its stream, and its matrix products.
#ifndef BASTION_COMMON_CUDA_GPU_H_
#define BASTION_COMMON_CUDA_GPU_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/cuda/gemm/gemm.h"
#include "kernels/cuda/runtime/runtime.h"

namespace bastion::cuda {

struct Gpu {
  kernels::cuda::DeviceInfo info;
  std::unique_ptr<kernels::cuda::Stream> stream;
  std::unique_ptr<kernels::cuda::Gemm> gemm;
};

// Opens GPU `ordinal`; how matrices are multiplied is read from `gemm_table`, if that is a file.
// Errors: kernels::cuda::OpenDevice, Gemm::Load.
[[nodiscard]] absl::StatusOr<Gpu> OpenGpu(int ordinal, const std::string& gemm_table);
// Writes it back, with what was found out since. Nothing to do where `gemm_table` is empty.
[[nodiscard]] absl::Status SaveGemmTable(const Gpu& gpu, const std::string& gemm_table);

}  // namespace bastion::cuda

#endif  // BASTION_COMMON_CUDA_GPU_H_
